// Runs of characters of one script: what the pre-tokenizer UnicodeScripts keeps together.
#pragma once

#include <memory>

namespace ds {

class Pattern;

// Chinese characters and kana are one script, as in SentencePiece; spaces, and code points without
// a script, belong to the run before them, and to none where there is no run. The scripts are those
// of the reference: it takes what is newer than Unicode 9 to be without one.
std::shared_ptr<const Pattern> script_runs();

}  // namespace ds
