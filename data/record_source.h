// Samples of records that are held in memory, each of which is a run of as many numbers: what
// labelled_texts.h and tagged_words.h have in common.
#pragma once

#include <string>
#include <vector>

#include "data/tokens/dataset.h"

namespace ds {

// Confined to one thread until all records are added; then thread-safe. The run of all numbers ends
// with one more, so that a SampleSet of so many as a record has takes each record as a sample.
class RecordSource : public TokenSource {
 public:
  void begin_file(const std::string& path) { files_.push_back({path, count()}); }
  int64_t count() const { return std::ssize(lines_); }  // records

  int64_t size() const final { return count() * numbers_ + 1; }
  std::optional<int64_t> documents() const final { return count(); }
  void read(int64_t offset, std::span<int32_t> out) const final;
  std::string locate(int64_t token) const final;

 protected:
  explicit RecordSource(int64_t numbers) : numbers_(numbers) {}
  void add_record(int64_t line) { lines_.push_back(line); }
  virtual int32_t number(int64_t record, int64_t index) const = 0;

 private:
  struct OpenedFile {
    std::string path;
    int64_t first = 0;  // record
  };
  const int64_t numbers_;
  std::vector<int64_t> lines_;
  std::vector<OpenedFile> files_;
};

// Tokens that are left for texts beside those which a tokenizer puts around them. ConfigError if
// there are none.
int64_t room_around(int64_t length, size_t around);

}  // namespace ds
