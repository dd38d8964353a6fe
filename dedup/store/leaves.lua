-- What the scripts share that touch buckets: how a bucket group is laid out, and its life within one script.
--
-- A record is 8 bytes: tag (4), document number (4). A group keeps its records in leaves, the strings stem:b:N, and
-- how many leaves and records there are in stem:b (two u32). A leaf is short and written whole: an appended string
-- keeps room for growth that a packed index cannot afford.
--
-- Leaves split one at a time as the group grows (linear hashing on the low bits of the tag), so that a leaf stays at
-- about the same length at any index size. All that may match a SimHash quarter share the low 16 bits of the tag, and so
-- the leaf: a group has at most 65,536 of them.
--
-- A script first locates all leaves that it needs, then loads them together: calls cost more than what they fetch.
-- For the same reason it takes a whole list of queries apart in one call.

local find, sub, unpack_struct = string.find, string.sub, struct.unpack

local LOAD = 48  -- records a leaf at which the group gets one more
local MOST = 65536
local AT_ONCE = 1000  -- keys a command: Lua's stack holds 8,000 values
local SCAN = 2048  -- bytes of a leaf from which a quarter is looked for by its 17 possible tags

local groups = {}
local names, leaves, dirty = {}, {}, {}

-- Open the groups of the first `count` keys.
local function open_groups(count)
  local keys = {}
  for i = 1, count do keys[i] = KEYS[i] .. ':b' end
  local sizes = redis.call('MGET', unpack(keys))
  for i = 1, count do
    local size, number, records, level = present(keys[i], sizes[i]), 1, 0, 1
    if #size == 8 then
      number, records = unpack_struct('<I4I4', size)
    elseif size ~= '' then
      error({err = 'FOREIGN ' .. keys[i]})
    end
    while level * 2 <= number do level = level * 2 end
    groups[i] = {key = keys[i], leaves = number, level = level, count = records, at = {}}
  end
end

local formats = {}

-- Return the fields of a packed list, one entry after the other.
local function fields(packed, format, size)
  local count = #packed / size
  local name = format .. count
  if not formats[name] then formats[name] = '<' .. string.rep(format, count) end
  local list = {unpack_struct(formats[name], packed)}
  list[#list] = nil  -- where it stopped reading
  return list, count
end

-- Return the index in `leaves` of a group's leaf.
local function index_of(group, number)
  local index = group.at[number]
  if not index then
    index = #names + 1
    names[index] = group.key .. ':' .. struct.pack('>I2', number)
    group.at[number] = index
  end
  return index
end

local function locate(group, tag)
  local number = tag % (group.level * 2)
  if number >= group.leaves then number = number - group.level end
  return group.at[number] or index_of(group, number)
end

local function load()
  for first = #leaves + 1, #names, AT_ONCE do
    local last = math.min(first + AT_ONCE - 1, #names)
    local found = redis.call('MGET', unpack(names, first, last))
    for i = first, last do
      local records = found[i - first + 1] or present(names[i], false)
      if #records % 8 > 0 then error({err = 'FOREIGN ' .. names[i]}) end
      leaves[i] = records
    end
  end
end

-- Append to `hits` the numbers that stand under a tag (4 bytes).
local function meet(hits, records, tag)
  local pos = find(records, tag, 1, true)
  while pos do
    if pos % 8 == 1 then hits[#hits + 1] = sub(records, pos + 4, pos + 7) end
    pos = find(records, tag, pos + (pos % 8 == 1 and 8 or 1), true)
  end
end

-- The same for a SimHash quarter: the low half of its tag must agree, the high half may differ in one bit.
local function meet_near(hits, records, tag)
  local key, high = sub(tag, 1, 2), unpack_struct('<I2', tag, 3)
  if #records > SCAN then
    meet(hits, records, tag)
    for shift = 0, 15 do meet(hits, records, key .. struct.pack('<I2', bit.bxor(high, bit.lshift(1, shift)))) end
    return
  end
  local pos = find(records, key, 1, true)
  while pos do
    if pos % 8 == 1 then
      local off = bit.bxor(high, (unpack_struct('<I2', records, pos + 2)))
      if bit.band(off, off - 1) == 0 then hits[#hits + 1] = sub(records, pos + 4, pos + 7) end
    end
    pos = find(records, key, pos + (pos % 8 == 1 and 8 or 1), true)
  end
end

-- Return where a record stands, nil if it does not.
local function stands(records, record)
  local pos = find(records, record, 1, true)
  while pos and pos % 8 ~= 1 do pos = find(records, record, pos + 1, true) end
  return pos
end

local function write(index, records)
  leaves[index], dirty[index] = records, true
end

local function split(group)
  -- leaf (leaves - level) gives the records whose next bit is set to the new one; runs of them are cut out at once
  local number, span, halves = group.leaves - group.level, group.level * 2, {{}, {}}
  local from = index_of(group, number)
  load()
  local records = leaves[from]
  local tags, count = fields(records, 'I4I4', 8)
  local first = 1
  while first <= count do
    local stays, last = tags[2 * first - 1] % span == number, first
    while last < count and (tags[2 * last + 1] % span == number) == stays do last = last + 1 end
    local half = stays and halves[1] or halves[2]
    half[#half + 1] = sub(records, 8 * first - 7, 8 * last)
    first = last + 1
  end
  local to = index_of(group, group.leaves)
  write(from, table.concat(halves[1]))
  write(to, table.concat(halves[2]))
  group.leaves = group.leaves + 1
  if group.leaves == span then group.level = span end
end

-- Let the groups grow, and write what has changed.
local function save()
  local words, gone = {}, {}
  local function put(key, value)
    words[#words + 1], words[#words + 2] = key, value
    if #words >= 2 * AT_ONCE then
      redis.call('MSET', unpack(words))
      words = {}
    end
  end
  for i = 1, #groups do
    local group = groups[i]
    while group.count > group.leaves * LOAD and group.leaves < MOST do split(group) end
    if group.changed then put(group.key, struct.pack('<I4I4', group.leaves, group.count)) end
  end
  for index in pairs(dirty) do
    if leaves[index] == '' then gone[#gone + 1] = names[index] else put(names[index], leaves[index]) end
  end
  if #words > 0 then redis.call('MSET', unpack(words)) end
  for first = 1, #gone, AT_ONCE do
    redis.call('DEL', unpack(gone, first, math.min(first + AT_ONCE - 1, #gone)))
  end
end
