// This says where training tokens come from, and how they become samples. A TokenSource is a run of
// tokens with random access; a SampleSet cuts sources into samples. Every read goes through
// File::read, so a file that shrinks while in use is an error with its name, not a SIGBUS.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/files/file.h"
#include "core/status/error.h"
#include "data/tokenizer/tokenizer.h"

namespace ds {

// Thread-safe: nothing changes after construction.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t size() const = 0;  // tokens
  // How many texts, conversations or items they are; nothing where that is not known.
  virtual std::optional<int64_t> documents() const { return std::nullopt; }
  // Tokens offset .. offset + out.size() - 1, which must exist. DataError if the file shrank.
  virtual void read(int64_t offset, std::span<int32_t> out) const = 0;
  // Says where a token lies, for messages: "corpus.bin at byte 1024".
  virtual std::string locate(int64_t token) const = 0;
  // What is not in the tokens as it is in the files.
  virtual std::vector<std::string> notes() const { return {}; }
};

// Returns the documents of all sources together; nothing if one does not know.
std::optional<int64_t> sum_of_documents(
    std::span<const std::shared_ptr<const TokenSource>> sources);

// Tokens in a file as little-endian integers of 1, 2 or 4 bytes after a header: a text seen as
// bytes, and llm.c shards.
std::shared_ptr<const TokenSource> open_raw_tokens(std::unique_ptr<File> file, int64_t header_bytes,
                                                   int token_bytes,
                                                   std::optional<int64_t> documents = std::nullopt);
// A shard of llm.c: 256 int32 of header (20240520, version 1, count: uint16 tokens; 20240801,
// version 7, count: uint32 tokens). DataError unless the file has exactly the bytes its header
// announces.
std::shared_ptr<const TokenSource> open_llmc_shard(FileSystem& file_system,
                                                   const std::string& path);
// What is put after each document.
struct Separator {
  enum class Kind { kText, kOneToken };
  std::string text = {};  // empty: nothing
  Kind kind = Kind::kText;
};
class TokenCache;

// How documents become one run of tokens.
struct TextOptions {
  std::string field = "text";  // of a JSON line
  Separator after_json_line = {"\n"};
  Separator after_text_file = {};
  // The cache keeps ids of large files (data/cache/token_cache.h), made by a tokenizer with this
  // digest. It is not owned; null: they are held in memory.
  TokenCache* cache = nullptr;
  std::string tokenizer_digest = {};
};
// Text files and JSON lines, plain or compressed, one after the other as one run of tokens. Plain
// text is read as it is for the byte tokenizer; the rest is decompressed and tokenised now, and
// held in memory or, as far as it is large, in the cache. DataError for what is no text,
// Unsupported for what this build could read with another library.
std::shared_ptr<const TokenSource> open_text(FileSystem& file_system,
                                             std::span<const std::string> paths,
                                             const Tokenizer& tokenizer,
                                             const TextOptions& options = {});
// What open_text would refuse of one such file, told by its first bytes (and samples of it, where
// it is plain) without tokenising it.
inline constexpr int64_t kManyTokens = int64_t{1} << 61;
struct TextLook {
  int64_t most_tokens = 0;  // that it can hold: its bytes, or kManyTokens where it is compressed
  int64_t text_bytes = 0;   // of the text, about: compressed text is taken for four times as long
  bool is_plain = false;    // its bytes are the text, from the first to the last
  bool is_json_lines = false;
  std::string head = {};  // the beginning of the text, decompressed; of JSON lines nothing
};
TextLook look_at_text(FileSystem& file_system, const std::string& path, const TextOptions& options);
// A Megatron / DeepSpeed indexed data set: PREFIX.bin and PREFIX.idx, all items in file order.
std::shared_ptr<const TokenSource> open_indexed(const std::string& prefix);

// Whether any of the paths names text, for which a tokenizer is needed; throws as
// open_token_sources does where that cannot be told.
bool has_text(FileSystem& file_system, std::span<const std::string> paths);

// What the paths of a configuration name, told apart by content: llm.c shards each stay a source of
// their own (as in llm.c, no sample crosses from one into the next), neighbouring text files become
// one. A path to PREFIX, PREFIX.bin or PREFIX.idx with both files there is an indexed data set.
// Folders and patterns stand for the files in them (data/text/path_pattern.h).
std::vector<std::shared_ptr<const TokenSource>> open_token_sources(
    FileSystem& file_system, std::span<const std::string> paths, const Tokenizer& tokenizer,
    const TextOptions& options = {});

// Bytes of a run of neighbouring texts, about, by what can be done with them: those that are the
// text itself, and those of compressed texts and JSON lines; files that are worth keeping each
// (data/tokens/text_memory.h), and smaller ones.
struct TextBytes {
  int64_t large_plain = 0, small_plain = 0;
  int64_t large = 0, small = 0;
};

// What open_token_sources would refuse of these paths, as far as that can be told without reading
// them through; each path and each file is looked at, and `on_problem` gets what is wrong with it.
struct DataLook {
  int64_t most_tokens = 0;  // of one source: a sample never crosses from one into the next
  std::vector<TextBytes> texts{};
  std::vector<std::string> notes;  // what is read, but looks like something else (data_notes.h)
};
DataLook look_at_token_sources(FileSystem& file_system, std::span<const std::string> paths,
                               const TextOptions& options,
                               const std::function<void(const Error& problem)>& on_problem);

// Sources that are drawn from together, and how often relative to others.
struct WeightedSources {
  std::vector<std::shared_ptr<const TokenSource>> sources;
  double weight = 1;  // more than 0
};

// Samples of T + 1 tokens: sample k of a source is its tokens [k T, k T + T], T inputs and the same
// shifted by one as targets; a source of N tokens has (N - 1) / T. Thread-safe.
class SampleSet {
 public:
  // vocab_size bounds the ids. DataError if there is not one whole sample.
  SampleSet(std::vector<std::shared_ptr<const TokenSource>> sources, int64_t sequence_length,
            int64_t vocab_size);
  // A mixture: each sample of each group at least once, and those of groups with more weight for
  // their size as often as their weight says. DataError also if a group has no whole sample,
  // ConfigError for weights too far apart.
  SampleSet(std::vector<WeightedSources> groups, int64_t sequence_length, int64_t vocab_size);

  int64_t size() const { return size_; }
  int64_t sequence_length() const { return sequence_length_; }
  int64_t vocab_size() const { return vocab_size_; }
  // Returns the documents of all sources, those that a split keeps for validation among them;
  // nothing if one source does not know.
  std::optional<int64_t> documents() const { return sum_of_documents(sources_); }
  // Fills T + 1 tokens. DataError naming file, offset and id for an id outside the vocabulary.
  void read(int64_t sample, std::span<int32_t> tokens) const;
  // Says where a sample begins: "corpus.bin at byte 1024".
  std::string locate(int64_t sample) const;
  // What is not in the samples as it is in the files, of all sources.
  std::vector<std::string> notes() const;
  // Reads samples from the start until `max_tokens`, so that a wrong vocabulary is met before
  // training.
  void check(int64_t max_tokens) const;
  // {training, validation}: the last ceil(fraction * size) samples are for validation, and no fewer
  // than one stays for training. 0 < fraction < 1. Of a mixture, that of each group, once each for
  // validation.
  std::pair<SampleSet, SampleSet> split(double validation_fraction) const;

 private:
  // Samples that follow each other in the sources, of which this set has a number of its own: it
  // goes round.
  struct Part {
    int64_t first = 0, count = 0;  // in the sources
    int64_t times = 0;             // samples of this set that they are
    double weight = 0;             // 0: each once
  };
  int64_t add_sources(std::vector<std::shared_ptr<const TokenSource>> sources);  // their samples
  struct Place {
    const TokenSource& source;
    int64_t offset;  // tokens
  };
  Place place_of(int64_t sample) const;
  size_t source_of(int64_t sample) const;
  void arrange();  // how often each part comes

  std::vector<std::shared_ptr<const TokenSource>> sources_;
  std::vector<int64_t> first_sample_{0};  // of each source, and the total at the end
  int64_t sequence_length_;
  int64_t vocab_size_;
  std::vector<Part> parts_;
  int64_t size_ = 0;
};

}  // namespace ds
