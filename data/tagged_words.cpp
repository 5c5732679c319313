#include "data/tagged_words.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/class_names.h"
#include "data/record_source.h"
#include "data/text/byte_stream.h"
#include "data/text/path_pattern.h"

namespace ds {
namespace {

constexpr int32_t kSentencePadding = 0;  // nobody looks at it
constexpr int32_t kNoClass = 0;

struct TaggedTokens {
  std::vector<int32_t> ids, classes;
  int64_t counted = 0;  // of them, which have a class
  bool is_cut = false;
};

class TaggedWords final : public RecordSource {
 public:
  explicit TaggedWords(const SampleLength& length)
      : RecordSource({.numbers = numbers_of_tagged(length.tokens), .length = length}),
        length_(length.tokens) {}

  void add(const TaggedTokens& sample, int64_t line) {
    add_record(line, sample.is_cut ? Kept::kBeginning : Kept::kWhole);
    counted_ += sample.counted;
    ids_.insert(ids_.end(), sample.ids.begin(), sample.ids.end());
    classes_.insert(classes_.end(), sample.classes.begin(), sample.classes.end());
    ends_.push_back(narrow<int64_t>(ids_.size()));
  }
  bool none_counts() const { return counted_ == 0; }

 private:
  int32_t number(int64_t sample, int64_t index) const override {
    const int64_t begin = sample == 0 ? 0 : nth(ends_, sample - 1);
    const int64_t size = nth(ends_, sample) - begin;
    if (index == 2 * length_) return narrow<int32_t>(size);
    const bool is_token = index < length_;
    const int64_t token = is_token ? index : index - length_;
    if (token >= size) return is_token ? kSentencePadding : kNoClass;
    return nth(is_token ? ids_ : classes_, begin + token);
  }

  int64_t length_;
  int64_t counted_ = 0;  // tokens that have a class
  std::vector<int32_t> ids_, classes_;
  std::vector<int64_t> ends_;
};

// Makes samples of sentences.
class SampleMaker {
 public:
  SampleMaker(const Tokenizer& tokenizer, const TaggedForm& form)
      : tokenizer_(tokenizer),
        form_(form),
        room_(room_around(form.length, form.frame.before.size() + form.frame.after.size())),
        inner_(inner_classes(form.labels)),
        puts_space_(form.before == BeforeWords::kSpace && tokenizer.has_bytes()) {}

  TaggedTokens make(const Sentence& sentence, const std::string& path) const {
    TaggedTokens words;
    for (size_t i = 0; i < sentence.words.size(); ++i) {
      // A class that is none is an error also where its word is cut off.
      const std::string where = fmt::format("{}:{}", path, sentence.line_of(i));
      const int32_t label = class_of(form_.labels, sentence.tags[i], where);
      if (std::ssize(words.ids) <= room_) add_word(sentence.words[i], label, words);
    }
    const auto kept = to_size(std::min(room_, std::ssize(words.ids)));
    const bool is_cut = std::ssize(words.ids) > room_;
    words.ids.resize(kept);
    words.classes.resize(kept);
    TaggedTokens sample{
        .ids = form_.frame.before,
        .classes = {},
        .counted = std::ssize(words.classes) - std::ranges::count(words.classes, kNoClass),
        .is_cut = is_cut};
    sample.ids.insert(sample.ids.end(), words.ids.begin(), words.ids.end());
    sample.ids.insert(sample.ids.end(), form_.frame.after.begin(), form_.frame.after.end());
    sample.classes.resize(form_.frame.before.size(), kNoClass);
    sample.classes.insert(sample.classes.end(), words.classes.begin(), words.classes.end());
    sample.classes.resize(sample.ids.size(), kNoClass);
    return sample;
  }

 private:
  // Each word is encoded as a text of its own.
  void add_word(const std::string& word, int32_t label, TaggedTokens& words) const {
    if (word.empty()) return;  // it has no token, as in transformers, also where words have a space
    const bool needs_space = puts_space_ && !word.starts_with(' ');
    const std::vector<int32_t> ids = tokenizer_.encode(needs_space ? " " + word : word);
    if (ids.empty()) return;
    const bool all = form_.counted == CountedTokens::kAllOfWord;
    words.ids.insert(words.ids.end(), ids.begin(), ids.end());
    words.classes.push_back(label + 1);
    words.classes.resize(words.ids.size(), all ? nth(inner_, label) + 1 : kNoClass);
  }

  const Tokenizer& tokenizer_;
  const TaggedForm& form_;
  const int64_t room_;
  const std::vector<int32_t> inner_;
  const bool puts_space_;
};

}  // namespace

TaggedSample tagged_sample(std::span<const int32_t> numbers) {
  const size_t length = (numbers.size() - 1) / 2;
  return {.tokens = numbers.first(length),
          .classes = numbers.subspan(length, length),
          .size = numbers.back()};
}

std::shared_ptr<const TokenSource> open_tagged_words(FileSystem& files,
                                                     std::span<const std::string> paths,
                                                     const Tokenizer& tokenizer,
                                                     const TaggedForm& form) {
  auto words = std::make_shared<TaggedWords>(form.length);
  const SampleMaker maker(tokenizer, form);
  for (const std::string& path : expand_paths(files, paths)) {
    const SentenceLayout layout = layout_of(files, path, sentence_layout);
    const std::string content = read_decompressed(files, path);
    words->begin_file(path);
    const SentenceText text{.content = content, .path = path, .layout = layout};
    for_each_sentence(text, form.fields, [&](const Sentence& sentence) {
      const TaggedTokens sample = maker.make(sentence, path);
      if (sample.ids.empty()) {
        throw DataError(fmt::format("{}:{}: there is no token in it", path, sentence.line));
      }
      words->add(sample, sentence.line);
    });
  }
  if (words->count() == 0) {
    throw DataError(fmt::format("{}: there is no sentence in it", fmt::join(paths, ", ")));
  }
  if (words->none_counts()) {
    throw DataError(fmt::format("{}: no word in it has a token, and there is nothing to learn from",
                                fmt::join(paths, ", ")));
  }
  return words;
}

}  // namespace ds
