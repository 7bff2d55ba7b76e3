#!/usr/bin/env bash
# shellcheck disable=SC2034
{% for comment in comments %}
# {{ comment | comment }}
{% endfor %}
set -euo pipefail

{% for name, value in settings.items() %}
{{ name }}={{ value }}
{% endfor %}
folder=$(cd -- "$(dirname -- "${BASH_SOURCE[0]}")" && pwd)
{% for name, words in lists.items() %}
{{ name }}=(
{% for word in words %}
  {{ word }}
{% endfor %}
)
{% endfor %}
exec "${command[@]}"
