// StagedComm: a group for tensors of a CUDA device over one that moves memory of the host (shm,
// tcp, mpi, threads): piece by piece from the device into pinned memory, through the inner group,
// and back. It is how ranks share a GPU, and how clusters without NCCL train. The results have the
// bits that the inner group gives tensors of the host, as far as its sum_order() promises any.
//
// A call waits on the host until the device has done what its stream was given before, because the
// inner group needs the numbers; it does not wait for what it copies back, which is work of the
// stream. While one piece is under way between the ranks, the next is copied from the device.
// Tensors of streams of the CPU and of meta are handed to the inner group as they are. A message
// that is longer than a chunk lies on the heap meanwhile, whole.
//
// It refuses streams that are being recorded: the host's part in a collective cannot be replayed.
#pragma once

#include <array>
#include <memory>

#include "comm/contract/communicator.h"

namespace ds {

namespace detail {
struct StagedCall;
}

struct StagedOptions {
  // memory() gives this memory of the device. Not owned; outlives this and all groups split off.
  MemoryResource* memory = nullptr;
  // These threads reduce. Not owned; outlives this and all groups split off.
  ThreadPool* pool = nullptr;
  // Each group takes this when it is made: two chunks, of which one is copied while the other is
  // sent. Equal on all ranks, as the pieces are.
  size_t pinned_bytes = size_t{16} << 20;
};

class StagedComm final : public Communicator {
 public:
  // Unsupported without CUDA in the build, as pinned memory is.
  StagedComm(std::unique_ptr<Communicator> inner, const StagedOptions& options);
  // `inner` is used for tensors of the host, too, and must outlive this.
  StagedComm(Communicator& inner, const StagedOptions& options);
  // Waits for the copies that are under way.
  ~StagedComm() override;
  StagedComm(const StagedComm&) = delete;  // owns its chunks
  StagedComm& operator=(const StagedComm&) = delete;

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  SumOrder sum_order() const override { return inner_.sum_order(); }
  void all_reduce(Tensor& inout, ReduceOp op, Stream& stream) override;
  void all_gather(const Tensor& shard, Tensor& full, Stream& stream) override;
  void reduce_scatter(const Tensor& full, Tensor& shard, ReduceOp op, Stream& stream) override;
  void all_to_all(const Tensor& in, Tensor& out, Stream& stream) override;
  void broadcast(Tensor& inout, int root, Stream& stream) override;
  void send(const Tensor& tensor, int to, Stream& stream) override;
  void recv(Tensor& tensor, int from, Stream& stream) override;
  void barrier() override { inner_.barrier(); }
  void check() override { inner_.check(); }
  // The groups are staged alike, each through pinned memory of its own.
  std::unique_ptr<Communicator> split(int color, int key) override;
  // What the device was given before is still done, and waited for by who waits for it.
  void abort() noexcept override { inner_.abort(); }
  MemoryResource& memory() override { return *options_.memory; }

 private:
  struct Chunk {
    std::byte* data = nullptr;
    Event last_use;  // of copies to and from it
  };
  int64_t pieces_of(int64_t numel, size_t bytes_of_each) const;
  void by_pieces(const detail::StagedCall& call);
  void load(const detail::StagedCall& call, int64_t index);
  void require_equal_pieces(const detail::StagedCall& call);

  std::unique_ptr<Communicator> own_;  // null: another's
  Communicator& inner_;
  const StagedOptions options_;
  const size_t chunk_bytes_;
  const std::unique_ptr<MemoryResource> pinned_;
  std::array<Chunk, 2> chunks_;
  HostMemory heap_;
  Stream host_;  // of the inner group's calls
};

}  // namespace ds
