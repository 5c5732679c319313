#include "data/tokenizer/split/script_runs.h"

#include <algorithm>
#include <iterator>
#include <ranges>

#include "data/tokenizer/split/pattern.h"
#include "data/tokenizer/split/script_ranges.h"

namespace ds {
namespace {

constexpr int kAny = 0;

int script_of(char32_t c) {
  const auto after = std::ranges::upper_bound(kScriptRanges, c, {}, &ScriptRange::first);
  if (after == std::begin(kScriptRanges)) return kAny;
  const ScriptRange& range = *std::prev(after);
  return c <= range.last ? range.script : kAny;
}

// A run is a character of a script and all that follows of it or of any. What comes before the
// first one is none.
class ScriptRuns final : public Pattern {
 public:
  void for_each_match(std::string_view text, TextEnd text_end, PatternWork&,
                      const OnMatch& on_match) const override {
    size_t begin = 0;
    int run = kAny;
    for (size_t at = 0; at < text.size();) {
      const Utf8Character character = first_character(text.substr(at));
      const int script = script_of(char32_t{character.code});
      if (script != kAny && script != run) {
        if (run != kAny && !on_match(begin, at)) return;
        begin = at;
        run = script;
      }
      at += character.length;
    }
    if (run != kAny && text_end == TextEnd::kEnd) on_match(begin, text.size());
  }
};

}  // namespace

std::shared_ptr<const Pattern> script_runs() { return std::make_shared<ScriptRuns>(); }

}  // namespace ds
