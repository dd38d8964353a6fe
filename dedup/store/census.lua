-- Count a batch of one or more sites' pages, and say how often their lines stand on each site.
--
-- KEYS[2i-1]  a site's lines: a hash, line (8 bytes) -> pages it stands on; 'n' -> pages seen
-- KEYS[2i]    a set: pages counted whose verdict is not safely on disk yet
-- ARGV[1]     at most this many lines are remembered a site
-- ARGV[3i-1]  ids (8 bytes each) of the pages to count; empty only to ask
-- ARGV[3i]    the distinct lines of these pages (8 bytes each)
-- ARGV[3i+1]  on how many of the pages each line stands (u16 each); empty only to ask
-- returns     for each site {pages, counts (u32 each)}; or {-1, ids} when some pages were counted before: nothing
--             was counted, ask again without them
-- cost        O(lines); when the site outgrows its bound, one pass over its lines
--
-- Counting is idempotent while a page is in flight: one read again after a crash is not counted twice.

local CHUNK = 1000
local most = tonumber(ARGV[1])

local function forget_rare(key, keep)
  -- lines seen once go first, then those seen twice, until few enough are left
  local all = redis.call('HGETALL', key)
  local histogram, left = {}, #all / 2
  for j = 2, #all, 2 do histogram[all[j]] = (histogram[all[j]] or 0) + 1 end
  local floor = 0
  while left > keep do
    floor = floor + 1
    left = left - (histogram[tostring(floor)] or 0)
  end
  local gone = {}
  for j = 1, #all, 2 do
    if all[j] ~= 'n' and tonumber(all[j + 1]) <= floor then gone[#gone + 1] = all[j] end
  end
  for first = 1, #gone, CHUNK do
    redis.call('HDEL', key, unpack(gone, first, math.min(first + CHUNK - 1, #gone)))
  end
end

local answers = {}
for i = 1, #KEYS / 2 do
  local key, inflight = KEYS[2 * i - 1], KEYS[2 * i]
  local ids, lines, standing = ARGV[3 * i - 1], ARGV[3 * i], ARGV[3 * i + 1]
  local again = {}
  for j = 1, #ids, 8 do
    local id = string.sub(ids, j, j + 7)
    if redis.call('SISMEMBER', inflight, id) == 1 then again[#again + 1] = id end
  end
  if #again > 0 then
    answers[i] = {-1, table.concat(again)}
  else
    for j = 1, #ids, 8 do redis.call('SADD', inflight, string.sub(ids, j, j + 7)) end
    local pages = tonumber(redis.call('HGET', key, 'n') or 0)
    if #ids > 0 then pages = redis.call('HINCRBY', key, 'n', #ids / 8) end
    local counts = {}
    for first = 1, #lines / 8, CHUNK do
      local last = math.min(first + CHUNK - 1, #lines / 8)
      local fields = {}
      for j = first, last do fields[#fields + 1] = string.sub(lines, j * 8 - 7, j * 8) end
      local known = redis.call('HMGET', key, unpack(fields))
      local updates = {}
      for j = first, last do
        local count = tonumber(known[j - first + 1] or 0)
        if #ids > 0 then
          count = count + struct.unpack('<I2', standing, j * 2 - 1)
          updates[#updates + 1] = fields[j - first + 1]
          updates[#updates + 1] = count
        end
        counts[j] = struct.pack('<I4', count)
      end
      if #updates > 0 then redis.call('HSET', key, unpack(updates)) end
    end
    if #ids > 0 and redis.call('HLEN', key) > most * 1.25 then forget_rare(key, most) end
    answers[i] = {pages, table.concat(counts)}
  end
end
return answers
