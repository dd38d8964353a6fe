-- Look at rivals, and challenge those that are junior to us.
--
-- KEYS[i]     the stem of the rival's group
-- ARGV[2i-1]  the rival's number (4)
-- ARGV[2i]    our number, to challenge the rival if it is pending; empty only to look
-- returns     for each rival its state after this, or false if there is none
-- cost        O(1) a rival
--
-- A claim whose lease ran out (by this server's clock) is removed here: whoever looks first, expires it.

-- include common.lua
-- include states.lua

local now = milliseconds()
local states = {}
for i = 1, #KEYS do
  local stem, number, challenger = KEYS[i], ARGV[2 * i - 1], ARGV[2 * i]
  local state = claim_of(stem, number)
  if not state then
    state = kept_of(stem, number)
  elseif deadline_of(state) < now then
    redis.call('HDEL', stem .. ':p', number)
    state = false
  elseif challenger ~= '' and string.sub(state, 1, 1) == 'P' then
    local challengers, record = parts_of(state)
    local known = false
    for c = 1, #challengers, 4 do known = known or string.sub(challengers, c, c + 3) == challenger end
    if not known then
      state = put_claim(stem, number, 'P', deadline_of(state), owner_of(state), challengers .. challenger, record)
    end
  end
  states[i] = state
end
return states
