// Samples of records that are held in memory, each of which is a run of as many numbers: what
// labelled_texts.h and tagged_words.h have in common.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "core/status/error.h"
#include "data/tokens/dataset.h"

namespace ds {

// Tokens of a sample, its padding included, and the key or option that says so, as messages have
// it.
struct SampleLength {
  // NOLINTNEXTLINE(google-explicit-constructor): most are of the configuration
  SampleLength(int64_t of_sample = 0, std::string from = "data.sequence_length")
      : tokens(of_sample), key(std::move(from)) {}
  int64_t tokens = 0;
  std::string key;
};

// Confined to one thread until all records are added; then thread-safe. The run of all numbers ends
// with one more, so that a SampleSet of so many as a record has takes each record as a sample.
class RecordSource : public TokenSource {
 public:
  void begin_file(const std::string& path) { files_.push_back({path, count()}); }
  void add_notes(const std::vector<std::string>& notes) {
    notes_.insert(notes_.end(), notes.begin(), notes.end());
  }
  int64_t count() const { return std::ssize(lines_); }  // records

  int64_t size() const final { return count() * extents_.numbers + 1; }
  std::optional<int64_t> documents() const final { return count(); }
  void read(int64_t offset, std::span<int32_t> out) const final;
  std::string locate(int64_t token) const final;
  std::vector<std::string> notes() const final;

 protected:
  struct Extents {
    int64_t numbers = 0;  // of a record
    SampleLength length{};
  };
  enum class Kept : uint8_t { kWhole, kBeginning };
  explicit RecordSource(Extents extents) : extents_(std::move(extents)) {}
  void add_record(int64_t line, Kept kept);
  virtual int32_t number(int64_t record, int64_t index) const = 0;

 private:
  struct OpenedFile {
    std::string path;
    int64_t first = 0;  // record
  };
  const Extents extents_;
  std::vector<int64_t> lines_;
  std::vector<int64_t> cut_;  // records that lost their end
  std::vector<OpenedFile> files_;
  std::vector<std::string> notes_;  // beside what is counted here
};

// The layout that the name of a file of records says. InputMissing without the file, whose name is
// then what is wrong.
template <class LayoutOfName>
auto layout_of(const FileSystem& files, const std::string& path, LayoutOfName of_name) {
  if (!files.exists(path)) throw InputMissing(fmt::format("{}: there is no such file", path));
  return of_name(path);
}

// Tokens that are left for texts beside those which a tokenizer puts around them. ConfigError if
// there are none.
int64_t room_around(const SampleLength& length, size_t around);

}  // namespace ds
