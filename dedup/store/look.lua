-- Look at rivals, and challenge those that are junior to us.
--
-- KEYS[i]     the states of a group
-- ARGV[2i-1]  the rival's id (8 bytes)
-- ARGV[2i]    our id, to challenge the rival if it is pending; empty only to look
-- returns     for each rival its state after this, or false if there is none
-- cost        O(1) a rival
--
-- A claim whose lease ran out (by this server's clock) becomes void here: whoever looks first, expires it.

local now = redis.call('TIME')
now = now[1] * 1000 + math.floor(now[2] / 1000)
local states = {}
for i = 1, #KEYS do
  local id, challenger = ARGV[2 * i - 1], ARGV[2 * i]
  local state = redis.call('HGET', KEYS[i], id)
  local kind = state and string.sub(state, 1, 1)
  if kind == 'P' or kind == 'W' then
    local epoch, version, deadline = struct.unpack('<I4I4d', state, 2)
    if deadline < now then
      state = 'V' .. struct.pack('<I4', epoch)
      redis.call('HSET', KEYS[i], id, state)
    elseif kind == 'P' and challenger ~= '' then
      local count = string.byte(state, 26)
      local ids = string.sub(state, 27, 26 + 8 * count)
      local known = false
      for c = 1, #ids, 8 do known = known or string.sub(ids, c, c + 7) == challenger end
      -- a full list (255) is left as it is: the challenger does not find itself in it, and waits
      if not known and count < 255 then
        state = 'P' .. struct.pack('<I4I4', epoch, version + 1) .. string.sub(state, 10, 25)
          .. string.char(count + 1) .. ids .. challenger .. string.sub(state, 27 + 8 * count)
        redis.call('HSET', KEYS[i], id, state)
      end
    end
  end
  states[i] = state
end
return states
