-- PROBE, and where nobody stands REGISTER, INSERT, READ and WIN, in one step: for a standalone server.
--
-- KEYS         the stems of all groups that are touched: first those of the buckets, then those of the numbers
-- ARGV[1]      lease in milliseconds
-- ARGV[2]      owner (8 bytes)
-- ARGV[3]      the first of as many fresh numbers as there are documents
-- ARGV[4]      n, how many of KEYS are for buckets
-- ARGV[5]      a byte a document: 1 if two of its buckets may lie in one row
-- ARGV[3+3d]   8-byte buckets of the d-th document: which of the n keys u8; place u16; row u16; tag (3). Of its exact
--              text first
-- ARGV[4+3d]   its record
-- ARGV[5+3d]   numbers (4 each) that it is known not to match: as if they were not there
-- returns      for each document W and its number (4) when it won; else C and the numbers of all that it might match, or
--              E and the numbers of those that may be the same text: the others were not looked for
-- cost         a look-up in a leaf a bucket, and a write for those that win
--
-- One by one these steps would give the same: nobody else can come in between, and with no rival there is nobody to
-- wait for. Documents of one call don't see each other: the caller has compared them. Sent again after a lost answer, a
-- winner of the first time meets itself and is told so.

-- include common.lua
-- include leaves.lua
-- include growth.lua
-- include states.lua

local deadline, owner, first, count = milliseconds() + ARGV[1], ARGV[2], tonumber(ARGV[3]), tonumber(ARGV[4])
local documents = (#ARGV - 5) / 3
local head = 'W' .. pack('<d', deadline) .. owner .. '\0\0'

-- Return those of the numbers that no claim has: some do when the call was sent before.
local function free_numbers()
  local free, number = {}, first
  while number < first + documents do
    local stem, some = KEYS[count + 1 + math.floor(number / CHUNK) - math.floor(first / CHUNK)], {}
    repeat
      some[#some + 1] = pack('>I4', number)
      number = number + 1
    until number % CHUNK == 0 or number == first + documents
    local claims = ask('HMGET', stem .. ':p', unpack(some))
    for i = 1, #some do
      if not claims[i] then free[#free + 1] = {stem = stem, number = some[i]} end
    end
  end
  return free
end

local mine = {}  -- the numbers that this call gave

local function strangers(numbers)
  local known = setmetatable({}, {__index = mine})
  for n = 1, #numbers, 4 do known[string.sub(numbers, n, n + 3)] = true end
  return known
end

local leaves, rows, held, sizes = {}, {}, {}, {}  -- of a document's buckets: where they lie, what stands there

-- Return whom a document meets, but those in `without`, and E if it was only looked for under its exact text. Where it
-- meets nobody, it enters.
local function enter(list, number, crosses_itself, without)
  local hits, b = {}, 0
  for e = 1, #list, 4 do
    local group, place = groups[list[e] + 1], list[e + 1]
    local leaf, row = spot_of(group, place, list[e + 2])
    local records, size = records_of(group, leaf, row)
    b = b + 1
    leaves[b], rows[b], held[b], sizes[b] = leaf, row, records, size
    if size > 0 then meet(hits, records, size, place, list[e + 3], without) end
    if b == 1 and #hits > 0 then return hits, 'E' end
  end
  if #hits == 0 and number then
    b = 0
    for e = 1, #list, 4 do
      b = b + 1
      local group, leaf, row, records, size = groups[list[e] + 1], leaves[b], rows[b], held[b], sizes[b]
      if crosses_itself then records, size = records_of(group, leaf, row) end
      append(group, leaf, row, records, size, list[e + 3], number)
    end
  end
  return hits, 'C'
end

open_groups(count)
local answers, free, next_free = {}, free_numbers(), 1
for d = 1, documents do
  local place = free[next_free]  -- none where all numbers are in use: the call was sent before
  local list, without = fields(ARGV[3 + 3 * d], 'BI2I2c3', 8), mine
  if ARGV[5 + 3 * d] ~= '' then without = strangers(ARGV[5 + 3 * d]) end
  local hits, looked_for = enter(list, place and place.number, byte(ARGV[5], d) == 1, without)
  if place and #hits == 0 then
    redis.call('HSET', place.stem .. ':p', place.number, head .. ARGV[4 + 3 * d])
    mine[place.number], next_free, answers[d] = true, next_free + 1, 'W' .. place.number
  else
    answers[d] = looked_for .. table.concat(hits)
  end
end
save()
return answers
