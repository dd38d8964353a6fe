-- COMMIT: won -> kept, after the page's bytes are on disk.
--
-- KEYS[i]    the states of a group
-- ARGV[2i-1] document id (8 bytes);  ARGV[2i]  the epoch we won in
-- returns    for each document 1 if it is kept, 0 if the claim was lost meanwhile: take the bytes back
-- cost       O(1) a document
--
-- Idempotent: kept stays kept. The pending part is dropped: a kept document is the moment it was kept and its record.

local now = redis.call('TIME')
now = now[1] * 1000000 + now[2]
local kept = {}
for i = 1, #KEYS do
  local id, epoch = ARGV[2 * i - 1], tonumber(ARGV[2 * i])
  local state = redis.call('HGET', KEYS[i], id)
  local kind = state and string.sub(state, 1, 1)
  if kind == 'W' and struct.unpack('<I4', state, 2) == epoch then
    redis.call('HSET', KEYS[i], id, 'K' .. struct.pack('<d', now + i) .. string.sub(state, 27 + 8 * string.byte(state, 26)))
    kept[i] = 1
  else
    kept[i] = kind == 'K' and 1 or 0
  end
end
return kept
