-- INSERT and READ in one step: put documents into buckets, and say who else stands there.
--
-- KEYS[i]  the stem of a group
-- ARGV[i]  9-byte entries to add: tag (4), 1 for a SimHash quarter else 0, document number (4)
-- returns  for each group one string of 6-byte answers, as probe.lua, the entry's own document left out
-- cost     as a probe; a leaf that gets a record is written whole; each 48th record of a group splits a leaf
--
-- Idempotent: a record that stands already is not added again. Documents of one call don't see each other.

-- include common.lua
-- include leaves.lua

open_groups(#KEYS)
local where = {}
for i = 1, #KEYS do
  local group, entries = groups[i], ARGV[i]
  for e = 1, #entries, 9 do where[#where + 1] = locate(group, (struct.unpack('<I4', entries, e))) end
end
load()

local answers, new, asked = {}, {}, 0
for i = 1, #KEYS do
  local entries, found = ARGV[i], {}
  for q = 0, #entries / 9 - 1 do
    asked = asked + 1
    local records, hits, fresh = leaves[where[asked]], {}, true
    local tag, number = string.sub(entries, q * 9 + 1, q * 9 + 4), string.sub(entries, q * 9 + 6, q * 9 + 9)
    if string.byte(entries, q * 9 + 5) == 1 then meet_near(hits, records, tag) else meet(hits, records, tag) end
    for h = 1, #hits do
      if hits[h] ~= number then
        found[#found + 1] = struct.pack('<I2', q) .. hits[h]
      elseif stands(records, tag .. number) then
        fresh = false
      end
    end
    if fresh then new[#new + 1] = {groups[i], where[asked], tag .. number} end
  end
  answers[i] = table.concat(found)
end
for n = 1, #new do add(unpack(new[n])) end
save()
return answers
