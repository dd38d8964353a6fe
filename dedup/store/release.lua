-- Leave the arena: a loser removes its state, unless it was taken over or kept.
--
-- KEYS[i]    the states of a group
-- ARGV[2i-1] document id (8 bytes);  ARGV[2i]  our epoch
-- returns    how many were removed
-- cost       O(1) a document

local removed = 0
for i = 1, #KEYS do
  local id, epoch = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local state = redis.call('HGET', KEYS[i], id)
  local kind = state and string.sub(state, 1, 1)
  if (kind == 'P' or kind == 'W' or kind == 'V') and struct.unpack('<I4', state, 2) == epoch then
    removed = removed + redis.call('HDEL', KEYS[i], id)
  end
end
return removed
