-- What the scripts share that touch buckets: how a bucket group is laid out, and its life within one script.
--
-- A group keeps its buckets in leaves, the hashes stem:b:N, and how many leaves and records there are in stem:b (two
-- u32). A leaf has cells (cells.lua), which a bucket's place and cell choose.
--
-- Leaves split one at a time as the group grows (linear hashing on the place), so that a leaf stays at about the same
-- length at any index size. The place's low two bits are in the leaf's number from the beginning, the other fourteen in
-- the record.

local char, gsub, pack, unpack_struct = string.char, string.gsub, struct.pack, struct.unpack

local LOAD = 128  -- records a leaf at which the group gets one more
local FIRST, MOST = 4, 65536  -- leaves at first, and at the end

local groups = {}

-- Open the groups of the first `count` keys.
local function open_groups(count)
  local keys = {}
  for i = 1, count do keys[i] = KEYS[i] .. ':b' end
  local sizes = redis.call('MGET', unpack(keys))
  for i = 1, count do
    local size, number, records, span = present(keys[i], sizes[i]), FIRST, 0, 2 * FIRST
    if #size == 8 then
      number, records = unpack_struct('<I4I4', size)
    elseif size ~= '' then
      error({err = 'FOREIGN ' .. keys[i]})
    end
    while span <= number do span = span * 2 end
    groups[i] = {key = keys[i], stem = keys[i] .. ':', leaves = number, span = span, count = records}
  end
end

local formats = {}

-- Return the fields of a packed list, one entry after the other, and how many entries there are.
local function fields(packed, format, size)
  local count, known = #packed / size, formats[format]
  if not known then
    known = {}
    formats[format] = known
  end
  if not known[count] then known[count] = '<' .. string.rep(format, count) end
  local list = {unpack_struct(known[count], packed)}
  list[#list] = nil  -- where it stopped reading
  return list, count
end

local suffixes = {}  -- of leaves' keys, by number

local function key_of(group, number)
  local suffix = suffixes[number]
  if not suffix then
    suffix = pack('>I2', number)
    suffixes[number] = suffix
  end
  return group.stem .. suffix
end

local function leaf_of(group, place)
  local number = place % group.span
  if number >= group.leaves then number = number - group.span / 2 end
  local suffix = suffixes[number]
  if suffix then return group.stem .. suffix end
  return key_of(group, number)
end


local going = {}

-- Return two tables that have '' for each byte: one where this bit is set, one where it is not.
local function gone(bit_value)
  if not going[bit_value] then
    local set, unset = {}, {}
    for value = 0, 255 do
      if value % (2 * bit_value) >= bit_value then set[char(value)] = '' else unset[char(value)] = '' end
    end
    going[bit_value] = {set, unset}
  end
  return going[bit_value][1], going[bit_value][2]
end

-- Give the group one more leaf: it takes those of another's records that have the place's next bit set.
local function split(group)
  local half = group.span / 2
  local number, next_bit = group.leaves - half, half / FIRST
  local its_byte = '(.)......'
  if next_bit > 255 then its_byte, next_bit = '.(.).....', next_bit / 256 end
  local gone_here, gone_there = gone(next_bit)
  local from, to = group.stem .. pack('>I2', number), group.stem .. pack('>I2', group.leaves)
  local cells, stay, move = {}, {}, {}
  each_block(from, function(cell, block)
    local here, there = gsub(block, its_byte, gone_here), gsub(block, its_byte, gone_there)
    if not stay[cell] then
      cells[#cells + 1], stay[cell], move[cell] = cell, here, there
    else
      stay[cell], move[cell] = stay[cell] .. here, move[cell] .. there
    end
  end)
  local old, new = {}, {}
  for c = 1, #cells do
    spell(old, cells[c], stay[cells[c]])
    spell(new, cells[c], move[cells[c]])
  end
  redis.call('DEL', from)
  put_all(from, old)
  put_all(to, new)
  group.leaves = group.leaves + 1
  if group.leaves == group.span then group.span = 2 * group.span end
end

local function changed(group, by)
  group.count, group.changed = group.count + by, true
end

-- Let the groups that changed have as many leaves as their records need, and write their sizes.
local function save()
  local sizes = {}
  for i = 1, #groups do
    local group = groups[i]
    while group.count > group.leaves * LOAD and group.leaves < MOST do split(group) end
    if group.changed then sizes[#sizes + 1], sizes[#sizes + 2] = group.key, pack('<I4I4', group.leaves, group.count) end
  end
  if #sizes > 0 then redis.call('MSET', unpack(sizes)) end
end
