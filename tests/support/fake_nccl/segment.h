// What the ranks of one communicator of the stand-in share: memory that threads and processes of
// one host map under the communicator's name. Each rank writes its own place and reads the others'.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string>

namespace ds::fake_nccl {

constexpr size_t kShownBytes = size_t{128} << 10;  // of a rank, in one round
constexpr size_t kPipeBytes = size_t{256} << 10;   // on the way from one rank to another

struct Signature {  // of a collective: what all ranks have to agree on
  int op = 0, type = 0, reduce = 0, root = 0;
  uint64_t count = 0;
  bool operator==(const Signature&) const = default;
};

struct SplitRequest {
  int color = 0;
  int key = 0;
};

struct Place {  // of one rank; [i % 2] of round or split i
  std::atomic<uint32_t> arrived;
  std::atomic<uint32_t> rounds;
  std::array<Signature, 2> signature;
  std::atomic<uint32_t> splits;
  std::array<SplitRequest, 2> split;
};

struct Pipe {  // one writer, one reader
  std::atomic<uint64_t> written;
  std::atomic<uint64_t> read;
  std::array<std::byte, kPipeBytes> ring;
};

class Segment {
 public:
  // Makes it where it is not there; all of it is 0 at first. std::runtime_error where it cannot.
  Segment(std::string name, int size);
  ~Segment();
  Segment(const Segment&) = delete;  // owns the mapping
  Segment& operator=(const Segment&) = delete;

  Place& place(int rank) const;
  std::byte* shown(int rank, uint32_t round) const;  // kShownBytes
  Pipe& pipe(int from, int to) const;
  void forget_name() const;  // everybody has it
  const std::string& name() const { return name_; }

 private:
  const std::string name_;
  const size_t size_;
  std::byte* base_ = nullptr;
  size_t bytes_ = 0;
};

}  // namespace ds::fake_nccl
