// What a tokenizer does to a text before it cuts it: each kind of normalizer of a tokenizer.json
// is one of these (pure). The texts are valid UTF-8.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "data/tokenizer/split/cut_places.h"
#include "data/tokenizer/split/pattern.h"
#include "data/tokenizer/text/unicode.h"

namespace ds {

// Thread-safe.
class Normalizer {
 public:
  virtual ~Normalizer() = default;
  // `work`: what patterns may do to this text.
  virtual std::string apply(std::string_view text, PatternWork& work) const = 0;
  // The same, where tokens that were found before stand ahead of this part of a text.
  virtual std::string apply_further_on(std::string_view text, PatternWork& work) const {
    return apply(text, work);
  }
  // The same, where the rest of the text stands directly before, which was cut at a place that it
  // may be cut at.
  virtual std::string apply_behind_cut(std::string_view text, PatternWork& work) const {
    return apply(text, work);
  }
  // Whether it makes of a text that is cut at such a place what it makes of the parts.
  virtual bool may_be_cut(CutPlaces::Kind places) const = 0;
  // Whether what it writes never has this text in it.
  virtual bool replaces(std::string_view) const { return false; }
  // How many bytes of the new text stand for the first bytes of the old one, which are whole
  // characters.
  virtual size_t beginning(std::string_view text, size_t first, PatternWork& work) const {
    return first > 0 ? apply(text.substr(0, first), work).size() : 0;
  }
};
using Normalizers = std::vector<std::unique_ptr<Normalizer>>;

// The text after all of them, in turn. `part`: whether it is what a whole text begins with, stands
// behind a token, or behind a cut.
enum class PartOfText { kBeginning, kFurtherOn, kBehindCut };
std::string normalize(const Normalizers& normalizers, std::string_view text, PatternWork& work,
                      PartOfText part = PartOfText::kBeginning);

// The same of a whole text that is not empty, with how many bytes stand for its first character:
// none where that was taken away.
struct NormalizedText {
  std::string text;
  size_t beginning = 0;
};
NormalizedText normalize_with_beginning(const Normalizers& normalizers, std::string_view text,
                                        PatternWork& work);

std::unique_ptr<Normalizer> unicode_form(unicode::Form form);
std::unique_ptr<Normalizer> lowercase();
std::unique_ptr<Normalizer> strip_accents();  // takes marks of every kind away
std::unique_ptr<Normalizer> byte_letters();   // GPT-2's letter for each byte
std::unique_ptr<Normalizer> nmt();            // control characters go, other spaces become " "

struct StripSides {
  bool left = true, right = true;
};
std::unique_ptr<Normalizer> strip(StripSides sides);
std::unique_ptr<Normalizer> prepend(std::string text);  // before a text that is not empty
std::unique_ptr<Normalizer> replace(std::shared_ptr<const Pattern> pattern, std::string content);

// BERT's, as in its release: Google's BasicTokenizer without the cut.
struct BertNormalizing {
  bool clean_text = true, handle_chinese_chars = true, strip_accents = true, lowercase = true;
};
std::unique_ptr<Normalizer> bert_normalizer(BertNormalizing parts);

// A table of replacements by whole characters of a person, where those are shorter than six bytes,
// as PyPI tokenizers looks them up. DataError for a table that ends early or has places beyond
// itself.
std::unique_ptr<Normalizer> precompiled(std::string_view table);

}  // namespace ds
