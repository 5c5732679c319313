// Where training tokens come from, and how they become samples. A TokenSource is a run of tokens with
// random access; a SampleSet cuts sources into samples. Every read goes through File::read, so a file
// that shrinks while in use is an error with its name, not a SIGBUS.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/file.h"
#include "data/tokenizer.h"

namespace ds {

// Thread-safe: nothing changes after construction.
class TokenSource {
 public:
  virtual ~TokenSource() = default;
  virtual int64_t size() const = 0;  // tokens
  // Tokens offset .. offset + out.size() - 1, which must exist. DataError if the file shrank.
  virtual void read(int64_t offset, std::span<int32_t> out) const = 0;
  // Where a token lies, for messages: "corpus.bin at byte 1024".
  virtual std::string locate(int64_t token) const = 0;
};

// Tokens in a file as little-endian integers of 1, 2 or 4 bytes after a header: a text seen as bytes,
// and llm.c shards.
std::shared_ptr<const TokenSource> open_raw_tokens(std::unique_ptr<File> file, int64_t header_bytes,
                                                   int token_bytes);
// A shard of llm.c: 256 int32 of header (20240520, version 1, count: uint16 tokens; 20240801, version 7,
// count: uint32 tokens). DataError unless the file has exactly the bytes its header announces.
std::shared_ptr<const TokenSource> open_llmc_shard(FileSystem& file_system, const std::string& path);
// Text files one after the other as one run of tokens; read as they are for the byte tokenizer,
// tokenised now for others.
std::shared_ptr<const TokenSource> open_text(FileSystem& file_system,
                                             std::span<const std::string> paths,
                                             const Tokenizer& tokenizer);
// A Megatron / DeepSpeed indexed data set: PREFIX.bin and PREFIX.idx, all items in file order.
std::shared_ptr<const TokenSource> open_indexed(const std::string& prefix);

// What the paths of a configuration name, told apart by content: llm.c shards each stay a source of
// their own (as in llm.c, no sample crosses from one into the next), neighbouring text files become one.
// A path to PREFIX, PREFIX.bin or PREFIX.idx with both files there is an indexed data set.
std::vector<std::shared_ptr<const TokenSource>> open_token_sources(
    FileSystem& file_system, std::span<const std::string> paths, const Tokenizer& tokenizer);

// Samples of T + 1 tokens: sample k of a source is its tokens [k T, k T + T], T inputs and the same
// shifted by one as targets; a source of N tokens has (N - 1) / T. Thread-safe.
class SampleSet {
 public:
  // vocab_size bounds the ids. DataError if there is not one whole sample.
  SampleSet(std::vector<std::shared_ptr<const TokenSource>> sources, int64_t sequence_length,
            int64_t vocab_size);

  int64_t size() const { return end_ - begin_; }
  int64_t sequence_length() const { return sequence_length_; }
  int64_t vocab_size() const { return vocab_size_; }
  // Fills T + 1 tokens. DataError naming file, offset and id for an id outside the vocabulary.
  void read(int64_t sample, std::span<int32_t> tokens) const;
  // Reads samples from the start until `max_tokens`, so that a wrong vocabulary is met before training.
  void check(int64_t max_tokens) const;
  // {training, validation}: the last ceil(fraction * size) samples are for validation, and no fewer than
  // one stays for training. 0 < fraction < 1.
  std::pair<SampleSet, SampleSet> split(double validation_fraction) const;

 private:
  std::vector<std::shared_ptr<const TokenSource>> sources_;
  std::vector<int64_t> first_sample_;  // of each source, and the total at the end
  int64_t sequence_length_;
  int64_t vocab_size_;
  int64_t begin_ = 0, end_ = 0;        // of all samples, those that belong to this set
};

}  // namespace ds
