-- PROBE, and where nobody stands REGISTER, INSERT, READ and WIN, in one step: for a standalone server.
--
-- KEYS        the stems of all groups that are touched: first those of the buckets, then those of the numbers
-- ARGV[1]     lease in milliseconds
-- ARGV[2]     owner (8 bytes)
-- ARGV[3]     the first of as many fresh numbers as there are documents
-- ARGV[4]     n, how many of KEYS are for buckets
-- ARGV[4+i]   10-byte entries in the i-th of these groups: document as an index u8, 0 for a band, 1 for a SimHash quarter, 2
--             for the exact text; tag u32; tag again, as 4 bytes to look for
-- ARGV[4+n+d] the record of the d-th document
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
local lists, where, hits = {}, {}, {}
for i = 1, count do lists[i] = fields(ARGV[4 + i], 'BBI4c4', 10) end
for d = 1, #ARGV - 4 - count do hits[d] = {} end

-- Look for the exact texts first, and for the other entries of those that were not found.
for _, exact in ipairs({true, false}) do
  for i = 1, count do
    local group, list, at = groups[i], lists[i], where[i] or {}
    for e = 1, #list, 4 do
      if (list[e + 1] == 2) == exact and #hits[list[e] + 1] == 0 then at[e] = locate(group, list[e + 2]) end
    end
    where[i] = at
  end
  load()
  for i = 1, count do
    local list, at = lists[i], where[i]
    for e = 1, #list, 4 do
      local kind = list[e + 1]
      if at[e] and (kind == 2) == exact then
        local records, tag = leaves[at[e]], list[e + 3]
        if kind == 1 then
          meet_near(hits[list[e] + 1], records, tag)
        elseif find(records, tag, 1, true) then
          meet(hits[list[e] + 1], records, tag)
        end
      end
    end
  end
  if exact then
    for d = 1, #hits do hits[d].kind = #hits[d] > 0 and 'E' or 'C' end
  end
end

local answers, numbers, won = {}, {}, false
for d = 1, #hits do
  if #hits[d] == 0 then
    numbers[d] = take_number(ARGV[4 + count + d])
    answers[d], won = 'W' .. numbers[d], true
  else
    answers[d] = hits[d].kind .. table.concat(hits[d])
  end
end
if won then
  for i = 1, count do
    local group, list, at = groups[i], lists[i], where[i]
    for e = 1, #list, 4 do
      local number = numbers[list[e] + 1]
      if number then
        local index = at[e]
        leaves[index], dirty[index] = leaves[index] .. list[e + 3] .. number, true
        group.count, group.changed = group.count + 1, true
      end
    end
  end
  save()
end
return answers
