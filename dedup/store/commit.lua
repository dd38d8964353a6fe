-- COMMIT: won -> kept, after the page's bytes are on disk.
--
-- KEYS[i]  the stem of the number's group
-- ARGV[i]  document number (4)
-- returns  for each document 1 if it is kept, 0 if the claim was lost meanwhile: take the bytes back
-- cost     a chunk of 16 records is written whole, once a call
--
-- Idempotent: kept stays kept. Of the claim only its record stays.

-- include common.lua
-- include states.lua

local now = redis.call('TIME')[1]
local kept, chunks, more = {}, {}, {}
for i = 1, #KEYS do
  local stem, number = KEYS[i], ARGV[i]
  local claim = claim_of(stem, number)
  if not claim then
    kept[i] = kept_of(stem, number) and 1 or 0
  elseif string.sub(claim, 1, 1) == 'W' then
    local _, record = parts_of(claim)
    local name, slot = chunk_of(stem, number)
    local parts = chunks[name]
    if not parts then
      parts = {ask('GET', name) or ''}
      entry_of(name, parts[1], 0)  -- is it one of ours?
      chunks[name] = parts
    end
    parts[#parts + 1] = struct.pack('<I1I3I4', slot, #record, now) .. record
    redis.call('HDEL', stem .. ':p', number)
    kept[i], more[stem] = 1, (more[stem] or 0) + 1
  else
    kept[i] = 0
  end
end
for name, parts in pairs(chunks) do redis.call('SET', name, table.concat(parts)) end
for stem, count in pairs(more) do redis.call('INCRBY', stem .. ':d', count) end
return kept
