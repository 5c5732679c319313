#include "data/tokenizer/split/script_runs.h"

#include <string>

#include "data/tokenizer/split/pattern.h"
#include "data/tokenizer/split/scripts.h"

namespace ds {
namespace {

// A character of the script, then what is of it or of none: spaces, and code points without one.
std::string run_of(const std::string& script) {
  return "[" + script + "][" + script + "\\x20\\p{sc:Unknown}]*";
}

}  // namespace

std::shared_ptr<const Pattern> script_runs() {
  std::string pattern = run_of("\\p{sc:Han}\\p{sc:Hiragana}\\p{sc:Katakana}\\x{30fc}");
  // The long sign of kana, which is Han above, is Common; so is the space, which begins no run.
  pattern += "|(?![\\x20\\x{30fc}])\\p{sc:Common}(?:(?!\\x{30fc})[\\p{sc:Common}\\p{sc:Unknown}])*";
  for (const std::string_view script : scripts())
    pattern += "|" + run_of("\\p{sc:" + std::string(script) + "}");
  return std::make_shared<Regex>(pattern);
}

}  // namespace ds
