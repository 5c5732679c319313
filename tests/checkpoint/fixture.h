// What the checkpoint tests share: tensors with known contents, saved by several ranks.
#pragma once

#include <numeric>
#include <string>
#include <vector>

#include "checkpoint/commit.h"
#include "checkpoint/reader.h"
#include "checkpoint/writer.h"

namespace ds::testing {

// An owning fp32 tensor with the values first, first + 1, ...
inline Tensor counting(int64_t numel, float first) {
  auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(numel));
  std::iota(values->begin(), values->end(), first);
  return Tensor::borrow(values->data(), Shape{numel}, DType::kF32, Device::cpu(), values);
}

inline Tensor zeros(int64_t numel) {
  auto values = std::make_shared<std::vector<float>>(static_cast<size_t>(numel));
  return Tensor::borrow(values->data(), Shape{numel}, DType::kF32, Device::cpu(), values);
}

inline std::vector<float> values_of(const Tensor& tensor) {
  return {tensor.data<float>(), tensor.data<float>() + tensor.numel()};
}

inline const Shape kShape{7, 11};  // of the tensor "w/weight"

// One rank's vote for a tag in which ranks hold equal parts of "w/weight"; element i is value + i.
inline FileVote save_part(FileSystem& fs, const SaveTarget& target, int ranks, float value) {
  const int64_t numel = kShape.numel();
  const int64_t begin = numel * target.rank / ranks;
  const int64_t end = numel * (target.rank + 1) / ranks;
  CheckpointWriter writer(fs, target, (end - begin) * 4);
  writer.put({"w/weight", kShape, Region::flat(begin, end),
              counting(end - begin, value + static_cast<float>(begin))});
  if (target.rank == 0) writer.put_state("train", fmt::format(R"({{"value":{}}})", value));
  return writer.finish();
}

struct Save {
  std::string tag;
  int64_t epoch = 0;
  int64_t step = 0;
  float value = 0;
};

inline CommitRequest save_parts(FileSystem& fs, const std::string& root, int ranks,
                                const Save& save) {
  CommitRequest request{root, save.tag, save.epoch, save.step, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    request.votes.push_back(save_part(fs, {root, save.tag, save.epoch, rank}, ranks, save.value));
  }
  return request;
}

inline void save_and_commit(FileSystem& fs, const std::string& root, int ranks, const Save& save) {
  commit_tag(fs, save_parts(fs, root, ranks, save));
}

// The whole of "w/weight".
inline std::vector<float> load(FileSystem& fs, const std::string& root, const std::string& tag) {
  CheckpointReader reader = CheckpointReader::open(fs, root, tag);
  Tensor into = zeros(kShape.numel());
  reader.get("w/weight", Region::whole(kShape), into);
  return values_of(into);
}

}  // namespace ds::testing
