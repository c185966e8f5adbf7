-- Limits that are kept as text, and asked by processes that need not agree on their terms.
--
-- Terms are all that decides what a state means, so the length of a window and the rate of a bucket. While a fleet is
-- replaced there are two. Then the text has an entry for each, `;` between them: every grant is charged to all
-- entries, and each caller is decided by its own. So what was used stays used, whoever granted it; time passes for each
-- entry by its own terms; and nothing is converted again and again. The first entry is that of whoever wrote last.
-- Others end with `@` and the moment at which somebody last wrote by their terms; they are dropped when that is longer
-- ago than they remember.
--
-- A caller that finds no entry of its own begins with one derived from the first: what was used at the moment of the last
-- change counts as used at that moment. A refusal does not write it: it is derived anew by the next caller, from the same
-- moment, so that no time is lost.
--
-- A kind has `terms_of(words)`, the terms of an entry; `rule_of(terms, words)`, a rule of such terms; `fresh(rule)`;
-- `read(rule, words)`; `written(words)`, the moment of the last change; `derived(rule, other, words, state)`, a state of an
-- entry of another rule; `words(rule, state)`; `memory(rule)`, the span after which an entry says nothing more; and
-- `lasts(rule, state)`, the same of a state.

local function entries_of(kind, text)
  local entries = {}
  for part in string.gmatch(text, '[^;]+') do
    local entry = { words = {} }
    for each in string.gmatch(part, '%S+') do
      if string.sub(each, 1, 1) == '@' then
        entry.asked = moment_of(string.sub(each, 2))
      else
        entry.words[#entry.words + 1] = each
      end
    end
    entry.terms = kind.terms_of(entry.words)
    entry.asked = entry.asked or kind.written(entry.words)
    entries[#entries + 1] = entry
  end
  if not entries[1] then unreadable() end
  return entries
end

local function load_text(kind, rule, key)
  local text = redis.call('GET', key)
  if not text then return kind.fresh(rule) end
  local state, others = nil, {}
  local entries = entries_of(kind, text)
  for _, entry in ipairs(entries) do
    if entry.terms == rule.terms then
      state = kind.read(rule, entry.words)
    else
      entry.rule = kind.rule_of(entry.terms, entry.words)
      entry.state = kind.read(entry.rule, entry.words)
      if since(entry.asked, now) ~= 0 then entry.asked = now end
      if less(since(now, entry.asked), kind.memory(entry.rule)) then others[#others + 1] = entry end
    end
  end
  local first = entries[1]
  state = state or kind.derived(rule, first.rule, first.words, first.state)
  state.others = others
  return state
end

local function save_text(kind, rule, state, key)
  local text, span = kind.words(rule, state), kind.lasts(rule, state)
  for _, other in ipairs(state.others or {}) do
    local lasts = kind.lasts(other.rule, other.state)
    if lasts ~= 0 then
      text = text .. ';' .. kind.words(other.rule, other.state) .. ' @' .. text_of_moment(other.asked)
      span = most(span, lasts)
    end
  end
  keep(key, span, text)
end
