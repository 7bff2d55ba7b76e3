-- A prompt goes to the server with the fewest bytes of prompts outstanding for its weight, the new one's counted in.
-- Backends with the filter `lua.fewest_bytes` find the server's name in the variable txn.server. It is not set where
-- every server is down or full, or the choice fails: then the backend's own balancing takes the request.
--
-- Bytes are counted from the choice until HAProxy ends the analysis of the answer, which it does however a request ends:
-- answered, refused by a queue, timed out, its client gone or its server dead. Each process counts what it sent itself.
-- It takes `nbthread 1`: HAProxy 2.6.12 mixes up filters of several threads (its issue 2467).

local servers = {} -- backend -> its servers, with what the configuration gives each
outstanding_bytes = {} -- backend/server -> bytes; global, for a script beside this one to show

core.register_init(function()
  for backend_name, backend in pairs(core.backends) do
    local rows = {}
    for name, server in pairs(backend.servers) do
      local stats = server:get_stats()
      local address = backend_name .. "/" .. name
      rows[#rows + 1] = {
        name = name,
        address = address,
        weight = tonumber(stats.weight) or 1,
        most = tonumber(stats.slim) or math.huge,
      }
      outstanding_bytes[address] = 0
    end
    table.sort(rows, function(first, second) return first.name < second.name end)
    servers[backend_name] = rows
  end
end)

local turn = 0 -- where the search begins, so that equal servers are taken in turn

local function chosen(fetches, bytes)
  local rows = servers[fetches:be_name()]
  local best, fewest
  turn = turn + 1
  for at = 1, #rows do
    local row = rows[(turn + at) % #rows + 1]
    -- by the name alone, in the backend that the request is in: HAProxy 2.6 writes into a text that names both
    if row.weight > 0 and fetches:srv_is_up(row.name) == 1 and fetches:srv_conn(row.name) < row.most then
      local after = (outstanding_bytes[row.address] + bytes) / row.weight
      if not fewest or after < fewest then
        best, fewest = row, after
      end
    end
  end
  return best
end

local Request = { id = "fewest bytes", flags = filter.FLT_CFG_FL_HTX }
Request.__index = Request

function Request:new()
  return setmetatable({ bytes = 0 }, Request)
end

function Request:start_analyze(txn, channel)
  if channel:is_resp() or self.address then
    return
  end
  local bytes = txn.f:req_body_size() or 0
  local done, row = pcall(chosen, txn.f, bytes)
  if not done then
    core.log(core.err, "fewest bytes: " .. tostring(row))
  elseif row then
    self.address, self.bytes = row.address, bytes
    outstanding_bytes[row.address] = outstanding_bytes[row.address] + bytes
    txn:set_var("txn.server", row.name)
  end
end

function Request:end_analyze(txn, channel)
  if channel:is_resp() and self.address then
    outstanding_bytes[self.address] = outstanding_bytes[self.address] - self.bytes
    self.address = nil
  end
end

core.register_filter("fewest_bytes", Request, function(class, arguments) return class end)
