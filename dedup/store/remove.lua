-- Take documents out of their buckets: what a loser does.
--
-- KEYS[i]  the stem of a group
-- ARGV[i]  13-byte entries to remove, as in insert.lua
-- returns  how many were there
-- cost     rewrites each leaf it takes something from

-- include common.lua
-- include leaves.lua

local lists, where = open_lists('BI4c4c4', 13, 4)
local removed = 0
for i = 1, #KEYS do
  local group, list = groups[i], lists[i]
  for e = 1, #list, 4 do
    local index = where[i][(e + 3) / 4]
    local pos = stands(leaves[index], list[e + 2] .. list[e + 3])
    if pos then
      leaves[index], dirty[index] = sub(leaves[index], 1, pos - 1) .. sub(leaves[index], pos + 8), true
      group.count, group.changed, removed = group.count - 1, true, removed + 1
    end
  end
end
save()
return removed
