-- PROBE, and where nobody stands REGISTER, INSERT, READ and WIN, in one step: for a standalone server.
--
-- KEYS        the stems of all groups that are touched: first those of the buckets, then those of the numbers
-- ARGV[1]     lease in milliseconds
-- ARGV[2]     owner (8 bytes)
-- ARGV[3]     the first of as many fresh numbers as there are documents
-- ARGV[4]     n, how many of KEYS are for buckets
-- ARGV[4+i]   6-byte entries in the i-th of these groups: document as an index u8, 1 for a quarter else 0, tag (4)
-- ARGV[4+n+d] the record of the d-th document
-- returns     for each document W and its number (4) when it won; else C and the numbers of all that it might match
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
local where = {}
for i = 1, count do
  local group, entries = groups[i], ARGV[4 + i]
  for e = 3, #entries, 6 do where[#where + 1] = locate(group, (struct.unpack('<I4', entries, e))) end
end
load()

local hits, asked = {}, 0
for d = 1, #ARGV - 4 - count do hits[d] = {} end
for i = 1, count do
  local entries = ARGV[4 + i]
  for e = 1, #entries, 6 do
    asked = asked + 1
    local records = leaves[where[asked]]
    if records ~= '' then
      local d, near = string.byte(entries, e, e + 1)
      local found = near == 1 and meet_near or meet
      found(hits[d + 1], records, string.sub(entries, e + 2, e + 5))
    end
  end
end

local answers, numbers, won = {}, {}, false
for d = 1, #hits do
  if #hits[d] == 0 then
    numbers[d] = take_number(ARGV[4 + count + d])
    answers[d], won = 'W' .. numbers[d], true
  else
    answers[d] = 'C' .. table.concat(hits[d])
  end
end
if won then
  asked = 0
  for i = 1, count do
    local group, entries = groups[i], ARGV[4 + i]
    for e = 1, #entries, 6 do
      asked = asked + 1
      local number = numbers[string.byte(entries, e) + 1]
      if number then add(group, where[asked], string.sub(entries, e + 2, e + 5) .. number) end
    end
  end
  save()
end
return answers
