-- Beside the exported script, for tests: what it counts, as a page.
core.register_service("outstanding", "http", function(applet)
  local rows = {}
  for address, bytes in pairs(outstanding_bytes) do
    rows[#rows + 1] = '"' .. address .. '": ' .. bytes
  end
  local text = "{" .. table.concat(rows, ", ") .. "}"
  applet:set_status(200)
  applet:add_header("content-length", #text)
  applet:start_response()
  applet:send(text)
end)
