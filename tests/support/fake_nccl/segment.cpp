#include "tests/support/fake_nccl/segment.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <stdexcept>
#include <utility>

namespace ds::fake_nccl {

Segment::Segment(std::string name, int size)
    : name_(std::move(name)),
      size_(static_cast<size_t>(size)),
      bytes_(size_ * (sizeof(Place) + 2 * kShownBytes) + size_ * size_ * sizeof(Pipe)) {
  const int file = shm_open(name_.c_str(), O_RDWR | O_CREAT, 0600);
  if (file < 0 || ftruncate(file, static_cast<off_t>(bytes_)) != 0) {
    if (file >= 0) close(file);
    throw std::runtime_error("no shared memory");
  }
  void* const mapped = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  close(file);
  if (mapped == MAP_FAILED) throw std::runtime_error("no mapping of shared memory");
  base_ = static_cast<std::byte*>(mapped);
}

Segment::~Segment() {
  forget_name();
  munmap(base_, bytes_);
}

void Segment::forget_name() const { shm_unlink(name_.c_str()); }

Pipe& Segment::pipe(int from, int to) const {
  const size_t at = static_cast<size_t>(from) * size_ + static_cast<size_t>(to);
  return reinterpret_cast<Pipe*>(base_)[at];
}

Place& Segment::place(int rank) const {
  std::byte* const places = base_ + size_ * size_ * sizeof(Pipe);
  return reinterpret_cast<Place*>(places)[rank];
}

std::byte* Segment::shown(int rank, uint32_t round) const {
  std::byte* const all = base_ + size_ * size_ * sizeof(Pipe) + size_ * sizeof(Place);
  return all + (2 * static_cast<size_t>(rank) + round % 2) * kShownBytes;
}

}  // namespace ds::fake_nccl
