-- Forget kept documents: S[d] = void, for good.
--
-- KEYS[i]  the stem of the number's group
-- ARGV[i]  document number (4)
-- returns  for each document 1 if it was kept, else 0
-- cost     a chunk of 16 records is written whole a document

-- include common.lua
-- include states.lua

local gone = {}
for i = 1, #KEYS do
  local name, slot = chunk_of(KEYS[i], ARGV[i])
  local chunk = ask('GET', name) or ''
  local first, last = entry_of(name, chunk, slot)
  if first then
    local left = string.sub(chunk, 1, first - 1) .. string.sub(chunk, last + 1)
    if left == '' then redis.call('DEL', name) else redis.call('SET', name, left) end
    redis.call('DECR', KEYS[i] .. ':d')
  end
  gone[i] = first and 1 or 0
end
return gone
