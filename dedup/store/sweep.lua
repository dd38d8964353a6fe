-- Take documents out of a run of leaves, wherever they stand in them: for those whose buckets nobody knows any more.
--
-- KEYS[1]  the stem of a group
-- ARGV[1]  the first leaf;  ARGV[2]  how many
-- ARGV[3]  document numbers (4 bytes each)
-- returns  {records removed, the next leaf or -1 when there is none}
-- cost     O(records in these leaves). A split moves records to higher leaves only: going up misses none.

-- include common.lua
-- include leaves.lua

open_groups(1)
local group, first = groups[1], tonumber(ARGV[1])
local last = math.min(first + ARGV[2], group.leaves) - 1
local wanted = {}
for n = 1, #ARGV[3], 4 do wanted[string.sub(ARGV[3], n, n + 3)] = true end
for number = first, last do add_leaf(group, number) end
load()

local removed = 0
for index = 1, located do
  local records, left = leaves[index], {}
  for r = 1, #records, 8 do
    if not wanted[string.sub(records, r + 4, r + 7)] then left[#left + 1] = string.sub(records, r, r + 7) end
  end
  if #left * 8 < #records then
    removed, group.count, group.changed = removed + #records / 8 - #left, group.count - (#records / 8 - #left), true
    leaves[index], dirty[index] = table.concat(left), true
  end
end
save()
return {removed, last + 1 < group.leaves and last + 1 or -1}
