-- Take documents out of their buckets: what a loser does.
--
-- KEYS[i]  the stem of a group
-- ARGV[i]  9-byte entries to remove, as in insert.lua
-- returns  how many were there
-- cost     rewrites each leaf it takes something from

-- include common.lua
-- include leaves.lua

open_groups(#KEYS)
local where = {}
for i = 1, #KEYS do
  local group, entries = groups[i], ARGV[i]
  for e = 1, #entries, 9 do where[#where + 1] = locate(group, (struct.unpack('<I4', entries, e))) end
end
load()

local removed, asked = 0, 0
for i = 1, #KEYS do
  local group, entries = groups[i], ARGV[i]
  for e = 1, #entries, 9 do
    asked = asked + 1
    local records = leaves[where[asked]]
    local pos = stands(records, string.sub(entries, e, e + 3) .. string.sub(entries, e + 5, e + 8))
    if pos then
      write(where[asked], string.sub(records, 1, pos - 1) .. string.sub(records, pos + 8))
      group.count, group.changed, removed = group.count - 1, true, removed + 1
    end
  end
end
save()
return removed
