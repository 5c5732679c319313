// Sentences of words that each have a tag (pure): JSON lines with a list of words and a list of
// tags, or CoNLL's form, which has a word a line, first its text and last its tag, in columns that
// tabs or else spaces part, and an empty line behind a sentence. A -DOCSTART- line parts documents,
// and is no sentence.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace ds {

enum class SentenceLayout { kJsonLines, kColumns };
// The layout that the name's ending without .gz and the like says. Unsupported for others than
// those of JSON lines and .conll, .bio, .iob, .iob2, .txt, .tsv.
SentenceLayout sentence_layout(const std::string& path);

struct SentenceText {
  std::string_view content;  // of a whole file
  std::string path;          // for messages
  SentenceLayout layout = SentenceLayout::kJsonLines;
};
struct SentenceFields {
  std::string words = "tokens", tags = "ner_tags";  // of JSON lines
};

struct Sentence {
  std::vector<std::string> words, tags;  // as many of either; whole numbers are digits
  int64_t line = 0;                      // its first, from 1
  // Returns the line that a word stands on, for messages: in columns each has its own.
  int64_t line_of(size_t word) const {
    return has_lines ? line + static_cast<int64_t>(word) : line;
  }
  bool has_lines = false;
};
// DataError "path:line: ..." for what is no such sentence.
void for_each_sentence(const SentenceText& text, const SentenceFields& fields,
                       const std::function<void(const Sentence& sentence)>& on_sentence);

}  // namespace ds
