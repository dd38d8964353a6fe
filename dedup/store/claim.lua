-- PROBE, and where nobody stands REGISTER, INSERT, READ and WIN, in one step: for a standalone server.
--
-- KEYS        the stems of all groups that are touched: first those of the buckets, then those of the numbers
-- ARGV[1]     lease in milliseconds
-- ARGV[2]     owner (8 bytes)
-- ARGV[3]     the first of as many fresh numbers as there are documents
-- ARGV[4]     n, how many of KEYS are for buckets
-- ARGV[3+2i]  9-byte entries of exact texts in the i-th of these groups: document as an index u8; tag u32; tag again,
--             as 4 bytes to look for
-- ARGV[4+2i]  10-byte entries of the other buckets: document u8; 1 for a SimHash quarter else 0; tag twice
-- ARGV[4+2n+d] the record of the d-th document
-- returns     for each document W and its number (4) when it won; else C and the numbers of all that it might match, or
--             E and the numbers of those that may be the same text: the others were not looked for
-- cost        one look at each leaf, a plain find a query; a leaf that gets a record is written whole
--
-- One by one these steps would give the same: nobody else can come in between, and with no rival there is nobody to
-- wait for. Documents of one call don't see each other: the caller has compared them. Sent again after a lost answer, a
-- winner of the first time meets itself and is told so.

-- include common.lua
-- include leaves.lua
-- include states.lua

local deadline, owner, first, count = milliseconds() + ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local next_number = first

local function take_number(record)
  local claim = 'W' .. struct.pack('<d', deadline) .. owner .. '\0\0' .. record
  while true do
    local number = struct.pack('>I4', next_number)
    local stem = KEYS[count + 1 + math.floor(next_number / CHUNK) - math.floor(first / CHUNK)]
    next_number = next_number + 1
    if ask('HSETNX', stem .. ':p', number, claim) == 1 then return number end
  end
end

open_groups(count)
local hits, open, documents = {}, {}, #ARGV - 4 - 2 * count
for d = 1, documents do hits[d] = {} end

-- The exact texts first, ...
local exact, where_exact = {}, {}
for i = 1, count do
  if ARGV[3 + 2 * i] ~= '' then
    exact[i] = fields(ARGV[3 + 2 * i], 'BI4c4', 9)
    where_exact[i] = locate(groups[i], exact[i], 3, 2)
  end
end
load()
for i, list in pairs(exact) do
  local where, entry = where_exact[i], 0
  for e = 1, #list, 3 do
    entry = entry + 1
    meet(hits[list[e] + 1], leaves[where[entry]], list[e + 2])
  end
end
for d = 1, documents do open[d] = #hits[d] == 0 end

-- ... then the other buckets of those whose text is new.
local others, where_others = {}, {}
for i = 1, count do
  others[i] = fields(ARGV[4 + 2 * i], 'BBI4c4', 10)
  where_others[i] = locate(groups[i], others[i], 4, 3, open)
end
load()
for i = 1, count do
  local list, where, entry, crowded = others[i], where_others[i], 0, groups[i].count > CROWDED
  for e = 1, #list, 4 do
    entry = entry + 1
    local index = where[entry]
    if index then
      local records, tag = leaves[index], list[e + 3]
      if list[e + 1] == 1 then
        meet_near(hits[list[e] + 1], records, tag, crowded)
      else
        meet(hits[list[e] + 1], records, tag)
      end
    end
  end
end

local answers, taken, won = {}, {}, false
for d = 1, documents do
  if #hits[d] == 0 then
    taken[d] = take_number(ARGV[4 + 2 * count + d])
    answers[d], won = 'W' .. taken[d], true
  else
    answers[d] = (open[d] and 'C' or 'E') .. table.concat(hits[d])
  end
end

local function add(group, list, size, where)
  local entry, added = 0, 0
  for e = 1, #list, size do
    entry = entry + 1
    local number = taken[list[e] + 1]
    if number then
      local index = where[entry]
      leaves[index], dirty[index], added = leaves[index] .. list[e + size - 1] .. number, true, added + 1
    end
  end
  if added > 0 then group.count, group.changed = group.count + added, true end
end

if won then
  for i = 1, count do
    if exact[i] then add(groups[i], exact[i], 3, where_exact[i]) end
    add(groups[i], others[i], 4, where_others[i])
  end
  save()
end
return answers
