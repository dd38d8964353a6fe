-- What the scripts share that touch documents' states.
--
-- S[d] is a claim, or a kept record, or nothing (void):
--   stem:p    a hash: document number -> claim: P (pending) or W (won), deadline ms f64, owner 8, number of challengers
--             u16, their numbers (4 each), record
--   stem:k:N  the kept records of 16 neighbouring numbers in one string: number % 16 u8, length u24, kept since
--             (seconds) u32, record. Written whole, so without room for growth.
--   stem:d    how many documents the group keeps
-- A state travels as the claim's bytes, or as K, since u32, record. Numbers are never given twice: void is for good.

local CHUNK, GROUPS = 16, 256
local OWNER, CHALLENGERS = 10, 18  -- where they begin in a claim

local function chunk_of(stem, number)
  local n = struct.unpack('>I4', number)
  return stem .. ':k:' .. math.floor(n / (CHUNK * GROUPS)), n % CHUNK
end

-- Return where an entry of a chunk begins and ends, nil if it is not there.
local function entry_of(name, chunk, slot)
  local at = 1
  while at <= #chunk do
    if #chunk - at < 7 then error({err = 'FOREIGN ' .. name}) end
    local number, length = struct.unpack('<I1I3', chunk, at)
    local last = at + 7 + length
    if last > #chunk or number >= CHUNK then error({err = 'FOREIGN ' .. name}) end
    if number == slot then return at, last end
    at = last + 1
  end
end

local function kept_of(stem, number)
  local name, slot = chunk_of(stem, number)
  local chunk = ask('GET', name)
  if not chunk then return false end
  local first, last = entry_of(name, chunk, slot)
  return first and 'K' .. string.sub(chunk, first + 4, last) or false  -- nil would end the list it is put into
end

local function checked(stem, claim)
  if #claim <= CHALLENGERS or not string.find(claim, '^[PW]') then error({err = 'FOREIGN ' .. stem .. ':p'}) end
  return claim
end

local function claim_of(stem, number)
  local claim = ask('HGET', stem .. ':p', number)
  return claim and checked(stem, claim)
end

local function put_claim(stem, number, kind, deadline, owner, challengers, record)
  local counted = struct.pack('<I2', #challengers / 4) .. challengers
  local claim = kind .. struct.pack('<d', deadline) .. owner .. counted .. record
  redis.call('HSET', stem .. ':p', number, claim)
  return claim
end

local function owner_of(claim)
  return string.sub(claim, OWNER, OWNER + 7)
end

local function deadline_of(claim)
  return (struct.unpack('<d', claim, 2))
end

-- Return the challengers of a claim, and its record.
local function parts_of(claim)
  local record = CHALLENGERS + 2 + 4 * struct.unpack('<I2', claim, CHALLENGERS)
  return string.sub(claim, CHALLENGERS + 2, record - 1), string.sub(claim, record)
end
