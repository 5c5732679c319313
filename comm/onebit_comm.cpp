#include "comm/onebit_comm.h"

#include <algorithm>

#include "core/values/index.h"
#include "kernels/elementwise/elementwise.h"
#include "kernels/quantize/signs.h"

namespace ds {
namespace {

constexpr int64_t kOfByte = 8;

void require_fits(const OneBitTensor& tensor, int64_t ranks) {
  const int64_t padded = tensor.worker.numel();
  DS_CHECK(padded == kernels::onebit_padded_numel(padded, ranks) &&
               tensor.server.numel() * ranks == padded,
           "1-bit average: errors of {} and {} numbers over {} ranks", padded,
           tensor.server.numel(), ranks);
  int64_t end = 0;
  for (const OneBitTensor::Part& part : tensor.parts) {
    DS_CHECK(part.offset >= end && part.offset % kOfByte == 0 &&
                 part.offset + part.values.numel() <= padded,
             "1-bit average: {} numbers at {} do not fit between {} and {}", part.values.numel(),
             part.offset, end, padded);
    end = part.offset + part.values.numel();
  }
}

// What is added to the error by who compresses it, in one pass over memory: the numbers of a tensor
// that is one part and needs no padding. Undefined: they are added beforehand.
Tensor added_with(const OneBitTensor& tensor) {
  const bool is_whole = tensor.parts.size() == 1 && tensor.parts.front().offset == 0 &&
                        tensor.parts.front().values.numel() == tensor.worker.numel();
  return is_whole ? tensor.parts.front().values : Tensor();
}

}  // namespace

// `signs` of all tensors end to end, rank by rank: those that rank r serves, then those of r + 1.
struct OneBitComm::Buffers {
  Buffers(std::span<const OneBitTensor> tensors, int64_t ranks, Stream& on)
      : count(narrow<int64_t>(tensors.size())) {
    for (const OneBitTensor& tensor : tensors) {
      require_fits(tensor, ranks);
      const int64_t bytes = tensor.worker.numel() / kOfByte;
      offsets.push_back(of_rank);
      of_rank += bytes / ranks;
      largest = std::max(largest, bytes);
    }
    const auto make = [&](int64_t numel, DType dtype) {
      return Tensor::empty({numel}, dtype, on, MemoryTag::kScratch);
    };
    whole = make(largest, DType::kU8);
    average = make(largest / ranks * kOfByte, DType::kF32);
    sent = make(of_rank * ranks, DType::kU8);
    received = make(of_rank * ranks, DType::kU8);
    served = make(of_rank, DType::kU8);
    scale = make(count, DType::kF32);
    scales = make(count * ranks, DType::kF32);
  }
  Tensor scale_of(int64_t rank, int64_t tensor) const {
    return scales.narrow(rank * count + tensor, 1);
  }

  const int64_t count;           // of tensors
  int64_t of_rank = 0;           // bytes that one rank serves
  int64_t largest = 0;           // bytes of one tensor
  std::vector<int64_t> offsets;  // of the tensors in what one rank serves
  Tensor whole, average;         // of one tensor after the other
  Tensor sent, received, served;
  Tensor scale, scales;  // of this rank, of all
};

void OneBitComm::average(std::span<const OneBitTensor> tensors, Stream& stream) {
  if (inner_.size() == 1 || tensors.empty()) return;
  Buffers buffers(tensors, inner_.size(), stream);
  compress(tensors, buffers, stream);
  inner_.all_gather(buffers.scale, buffers.scales, stream);
  inner_.all_to_all(buffers.sent, buffers.received, stream);
  serve(tensors, buffers, stream);
  inner_.all_gather(buffers.scale, buffers.scales, stream);
  inner_.all_gather(buffers.served, buffers.received, stream);
  expand(tensors, buffers, stream);
}

void OneBitComm::compress(std::span<const OneBitTensor> tensors, Buffers& buffers,
                          Stream& stream) const {
  for (int64_t t = 0; t < buffers.count; ++t) {
    const OneBitTensor& tensor = tensors[to_size(t)];
    const Tensor added = added_with(tensor);
    if (!added.defined()) {
      for (const OneBitTensor::Part& part : tensor.parts) {
        Tensor error = tensor.worker.narrow(part.offset, part.values.numel());
        kernels::accumulate(stream, part.values, error);
      }
    }
    const Tensor signs = buffers.whole.narrow(0, tensor.worker.numel() / kOfByte);
    kernels::compress_signs(stream, {.values = added,
                                     .error = tensor.worker,
                                     .signs = signs,
                                     .scale = buffers.scale.narrow(t, 1)});
    const int64_t share = signs.numel() / inner_.size();
    for (int64_t rank = 0; rank < inner_.size(); ++rank) {
      const Tensor from = signs.narrow(rank * share, share);
      const Tensor to =
          buffers.sent.narrow(rank * buffers.of_rank + buffers.offsets[to_size(t)], share);
      stream.copy(from.address(), to.address(), from.bytes());
    }
  }
}

void OneBitComm::serve(std::span<const OneBitTensor> tensors, Buffers& buffers,
                       Stream& stream) const {
  for (int64_t t = 0; t < buffers.count; ++t) {
    const OneBitTensor& tensor = tensors[to_size(t)];
    const int64_t share = tensor.server.numel() / kOfByte;
    Tensor average = buffers.average.narrow(0, tensor.server.numel());
    kernels::fill(stream, average, 0.0F);
    for (int64_t rank = 0; rank < inner_.size(); ++rank) {
      const int64_t at = rank * buffers.of_rank + buffers.offsets[to_size(t)];
      kernels::add_signs(stream, buffers.received.narrow(at, share), buffers.scale_of(rank, t),
                         average);
    }
    kernels::scale(stream, 1.0F / static_cast<float>(inner_.size()), average);
    kernels::compress_signs(stream,
                            {.values = average,
                             .error = tensor.server,
                             .signs = buffers.served.narrow(buffers.offsets[to_size(t)], share),
                             .scale = buffers.scale.narrow(t, 1)});
  }
}

void OneBitComm::expand(std::span<const OneBitTensor> tensors, const Buffers& buffers,
                        Stream& stream) const {
  for (int64_t t = 0; t < buffers.count; ++t) {
    const OneBitTensor& tensor = tensors[to_size(t)];
    const int64_t share = tensor.server.numel();
    for (const OneBitTensor::Part& part : tensor.parts) {
      const int64_t last = part.offset + part.values.numel();
      for (int64_t rank = part.offset / share; rank * share < last; ++rank) {
        const int64_t begin = std::max(part.offset, rank * share);
        const int64_t end = std::min(last, (rank + 1) * share);
        const int64_t at =
            rank * buffers.of_rank + buffers.offsets[to_size(t)] + (begin - rank * share) / kOfByte;
        Tensor values = part.values.narrow(begin - part.offset, end - begin);
        const auto bytes = narrow<int64_t>(kernels::sign_bytes(to_size(end - begin)));
        kernels::expand_signs(stream, buffers.received.narrow(at, bytes), buffers.scale_of(rank, t),
                              values);
      }
    }
  }
}

}  // namespace ds
