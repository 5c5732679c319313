#include "data/sentence_pairs.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "core/status/error.h"
#include "core/values/index.h"
#include "data/text/byte_stream.h"
#include "data/text/data_notes.h"
#include "data/text/path_pattern.h"
#include "data/text/record_lines.h"
#include "data/text/records.h"
#include "data/text/text_kind.h"

namespace ds {
namespace {

int64_t begin_of(const std::vector<int64_t>& ends, int64_t index) {
  return index == 0 ? 0 : nth(ends, index - 1);
}

// Numbers one after the other, of one document.
class Draws {
 public:
  explicit Draws(const Rng& rng) : rng_(rng) {}
  bool is_below(double share) { return static_cast<double>(rng_.uniform(next_++)) < share; }
  int64_t below(int64_t count) {
    const auto wide = uint64_t{rng_.bits(next_++)} * static_cast<uint64_t>(count);
    return static_cast<int64_t>(wide >> 32U);
  }

 private:
  const Rng rng_;
  uint64_t next_ = 0;
};

// The end of the fewest sentences from `begin` on that have so many tokens, or of all up to `end`.
int64_t end_of_tokens(const SentenceRun& all, int64_t begin, int64_t end, int64_t tokens) {
  int64_t at = begin + 1;
  while (at < end && std::ssize(all.tokens(begin, at)) < tokens) ++at;
  return at;
}

// A text of another document than this one.
void take_from_elsewhere(const SentenceRun& all, int64_t document, int64_t tokens, Draws& draws,
                         SentencePair& pair) {
  int64_t other = draws.below(all.documents() - 1);
  if (other >= document) ++other;
  const int64_t begin = begin_of(all.document_ends, other), end = nth(all.document_ends, other);
  pair.second_begin = begin + draws.below(end - begin);
  pair.second_end = end_of_tokens(all, pair.second_begin, end, tokens);
  pair.label = kFromElsewhere;
}

struct OpenedFile {
  std::string path;
  int64_t documents = 0;         // up to its end, those of the files before it included
  std::vector<int64_t> lines{};  // where its sentences are
};

// Reads sentences into a run.
class SentenceReader {
 public:
  SentenceReader(const Tokenizer& tokenizer, const PairForm& form)
      : tokenizer_(tokenizer), form_(form) {}

  void add_file(FileSystem& files, const std::string& path) {
    if (!files.exists(path)) throw InputMissing(fmt::format("{}: there is no such file", path));
    const std::string content = read_decompressed(files, path);
    files_.push_back({.path = path});
    if (layout_of(path) == TextLayout::kJsonLines) {
      for_each_record({.content = content, .path = path, .layout = RecordLayout::kJsonLines},
                      {{.name = form_.field}},
                      [&](std::span<const std::string> values, int64_t line) {
                        std::string_view rest = values.front();
                        while (!rest.empty()) add_sentence(next_line(rest), line);
                        end_document();
                      });
    } else {
      require_record_text(content, path);
      notes_.add_text(path, std::string_view(content).substr(0, kHeadBytes));
      std::string_view rest = content;
      for (int64_t line = 1; !rest.empty(); ++line) {
        const std::string_view text = next_line(rest);
        is_blank(text) ? end_document() : add_sentence(text, line);
      }
      end_document();
    }
    files_.back().documents = run_.documents();
  }

  const SentenceRun& run() const { return run_; }
  const std::vector<OpenedFile>& files() const { return files_; }
  std::vector<std::string> notes() const { return notes_.texts(); }

 private:
  void add_sentence(std::string_view text, int64_t line) {
    const size_t before = run_.ids.size();
    append_ids(run_.ids, tokenizer_.encode(text));
    if (run_.ids.size() == before) return;  // there is no token in it
    run_.sentence_ends.push_back(std::ssize(run_.ids));
    files_.back().lines.push_back(line);
  }
  void end_document() {
    const int64_t sentences = std::ssize(run_.sentence_ends);
    const bool is_empty = sentences == (run_.document_ends.empty() ? 0 : run_.document_ends.back());
    if (!is_empty) run_.document_ends.push_back(sentences);
  }

  const Tokenizer& tokenizer_;
  const PairForm& form_;
  SentenceRun run_;
  std::vector<OpenedFile> files_;
  DataNotes notes_;
};

}  // namespace

std::span<const int32_t> SentenceRun::tokens(int64_t begin, int64_t end) const {
  const int64_t first = begin_of(sentence_ends, begin), last = begin_of(sentence_ends, end);
  return std::span(ids).subspan(to_size(first), to_size(last - first));
}

std::vector<SentencePair> pairs_of_document(const SentenceRun& all, int64_t document, int64_t room,
                                            const PairRules& rules, const Rng& rng) {
  DS_CHECK(all.documents() > 1 && room > 1, "sentence pairs: {} documents, room for {} tokens",
           all.documents(), room);
  Draws draws(rng.derive(static_cast<uint64_t>(document)));
  std::vector<SentencePair> pairs;
  const int64_t last = nth(all.document_ends, document);
  for (int64_t begin = begin_of(all.document_ends, document); begin < last;) {
    const int64_t wanted = draws.is_below(rules.short_prob) ? 2 + draws.below(room - 1) : room;
    const int64_t end = end_of_tokens(all, begin, last, wanted);
    const int64_t count = end - begin;
    SentencePair pair{.first_begin = begin,
                      .first_end = begin + 1 + (count > 2 ? draws.below(count - 1) : 0)};
    if (count == 1 || draws.is_below(rules.random_prob)) {
      const auto first = std::ssize(all.tokens(begin, pair.first_end));
      take_from_elsewhere(all, document, std::max<int64_t>(wanted - first, 1), draws, pair);
      begin = pair.first_end;  // what was behind it begins another pair
    } else {
      pair.second_begin = pair.first_end;
      pair.second_end = begin = end;
    }
    pairs.push_back(pair);
  }
  return pairs;
}

std::shared_ptr<const TokenSource> open_sentence_pairs(FileSystem& files,
                                                       std::span<const std::string> paths,
                                                       const Tokenizer& tokenizer,
                                                       const PairForm& form) {
  SentenceReader reader(tokenizer, form);
  for (const std::string& path : expand_paths(files, paths)) reader.add_file(files, path);
  const SentenceRun& all = reader.run();
  if (all.documents() < 2) {
    throw DataError(fmt::format(
        "{}: {}, and whether sentences follow each other is told from those of other documents; a "
        "text file has a sentence a line and an empty line between documents, and of JSON lines "
        "each is a document",
        fmt::join(paths, ", "),
        all.documents() == 1 ? "all of it is one document" : "there is no sentence in it"));
  }
  const int64_t room = room_of_pair(form.frame, form.length);
  if (room < 2) {
    throw ConfigError(fmt::format("{}: {} tokens have no room for two texts", form.length.key,
                                  form.length.tokens));
  }
  auto samples = std::make_shared<LabelledSamples>(form.length, 0);
  samples->add_notes(reader.notes());
  const Rng rng(0, "sentence_pairs");
  int64_t document = 0, sentences = 0;
  for (const OpenedFile& file : reader.files()) {
    samples->begin_file(file.path);
    for (; document < file.documents; ++document) {
      for (const SentencePair& pair : pairs_of_document(all, document, room, form.rules, rng)) {
        LabelledSamples::Sample sample =
            sample_of_pair(form.frame, form.length, all.tokens(pair.first_begin, pair.first_end),
                           all.tokens(pair.second_begin, pair.second_end), KeptOfFirst::kEnd);
        sample.label = pair.label;
        sample.is_cut = false;  // texts are made longer than what there is room for
        samples->add(sample, nth(file.lines, pair.first_begin - sentences));
      }
    }
    sentences += std::ssize(file.lines);
  }
  return samples;
}

}  // namespace ds
