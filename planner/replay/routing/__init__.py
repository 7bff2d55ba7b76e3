"""The router of a replay: an interval for a prompt's length, and a choice by layers among those who serve it."""
