-- Enter the arena: S[d] = pending.
--
-- KEYS[i]      the states of a group: a hash document id -> state
-- ARGV[1]      lease in milliseconds
-- ARGV[2]      owner (8 bytes)
-- ARGV[2i+1]   document id (8 bytes)
-- ARGV[2i+2]   its record: what stays when the document is kept
-- returns      for each document its state as stored now: pending, or kept if this page was kept before
-- cost         O(1) a document
--
-- A state is one byte and its body:
--   P, W  epoch u32, version u32, deadline ms f64, owner 8, number of challengers u8, their ids, record
--   K     since f64 (microseconds; orders what is kept), record
--   V     epoch u32
-- Registering again is harmless: the same owner finds its claim, another owner (the same page after a crash)
-- takes it over with the next epoch, so that the first one can no longer commit.

local now = redis.call('TIME')
local deadline = now[1] * 1000 + math.floor(now[2] / 1000) + ARGV[1]
local owner = ARGV[2]
local states = {}
for i = 1, #KEYS do
  local id, record = ARGV[2 * i + 1], ARGV[2 * i + 2]
  local state = redis.call('HGET', KEYS[i], id)
  local kind = state and string.sub(state, 1, 1)
  if kind ~= 'K' then
    local epoch, version, challengers = 1, 1, '\0'
    if kind == 'P' or kind == 'W' then
      epoch, version = struct.unpack('<I4I4', state, 2)
      challengers = string.sub(state, 26, 26 + 8 * string.byte(state, 26))
      if string.sub(state, 18, 25) ~= owner then
        epoch, version = epoch + 1, version + 1
        kind = 'P'
      end
    elseif kind == 'V' then
      epoch = struct.unpack('<I4', state, 2) + 1
      kind = 'P'
    else
      kind = 'P'
    end
    state = kind .. struct.pack('<I4I4d', epoch, version, deadline) .. owner .. challengers .. record
    redis.call('HSET', KEYS[i], id, state)
  end
  states[i] = state
end
return states
