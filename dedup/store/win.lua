-- WIN: pending -> won, if nobody challenged us since we looked.
--
-- KEYS[i]     the states of a group
-- ARGV[1]     lease in milliseconds: winning renews it
-- ARGV[3i-1]  document id (8 bytes);  ARGV[3i]  epoch;  ARGV[3i+1]  the version we decided on
-- returns     for each document its state after this, or false: W means won, P that the version moved (look at
--             the challengers in it), V or false that the claim was lost and must be registered anew
-- cost        O(1) a document

local now = redis.call('TIME')
local deadline = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[1]
local states = {}
for i = 1, #KEYS do
  local id, epoch, version = ARGV[3 * i - 1], tonumber(ARGV[3 * i]), tonumber(ARGV[3 * i + 1])
  local state = redis.call('HGET', KEYS[i], id)
  local kind = state and string.sub(state, 1, 1)
  if kind == 'P' or kind == 'W' then
    local is_epoch, is_version = struct.unpack('<I4I4', state, 2)
    if is_epoch ~= epoch then
      state = 'V' .. struct.pack('<I4', is_epoch)
    elseif kind == 'P' and is_version == version then
      state = 'W' .. struct.pack('<I4I4d', epoch, version, deadline) .. string.sub(state, 18)
      redis.call('HSET', KEYS[i], id, state)
    end
  end
  states[i] = state
end
return states
