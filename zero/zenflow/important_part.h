// ImportantPart: the important elements of a rank's slice of a bucket, side by side in memory of
// the device, with masters and slots of their own. They go back and forth between there and the
// host's, which has all of the slice.
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "optim/optimizer.h"
#include "zero/state/optimizer_state_store.h"
#include "zero/zenflow/columns.h"

namespace ds {

struct ZenflowMatrix {
  int param = 0;
  int64_t rows = 0, columns = 0;
  int64_t chosen = 0;  // of the columns
  bool has_rest() const { return chosen < columns; }
};
// Which of the matrices, in the order of their parameters, the parameter is; < 0: none.
int matrix_of(std::span<const ZenflowMatrix> matrices, int param);

// What parts take turns with; each for the largest of them.
struct ImportantRoom {
  Tensor staging;             // fp32, of the host
  std::vector<Tensor> slots;  // of the device, where the parts' own are on the host
};

class ImportantPart {
 public:
  struct Options {
    std::vector<SlotSpec> slots;  // of the optimizer, fp32
    DType grad_dtype = DType::kF32;
    bool offloads_slots = false;
  };
  ImportantPart(const Options& options, const StateSlice& slice,
                std::span<const ZenflowMatrix> matrices, Stream& compute, const HostPlace& host);

  int64_t most() const { return most_; }  // elements, whichever columns are chosen
  bool has_rest() const { return has_rest_; }
  std::span<const ShardField> fields() const { return fields_; }

  // Important are what is no matrix, and the columns that are chosen of each matrix.
  using ChosenOf = std::function<std::span<const uint8_t>(int matrix)>;
  void choose(std::span<const ZenflowMatrix> matrices, const ChosenOf& chosen_of);
  // From the whole slice on the host, and back into it. Both wait.
  void take_state(const Shard& all, const ImportantRoom& room);
  // `shown`: where masters go as well; undefined: nowhere.
  void write_back(const Shard& all, const Tensor& shown, const ImportantRoom& room);
  void take_host_gradient(const Tensor& all, const ImportantRoom& room);
  // From the slice on the device, in the order of the stream.
  void take_gradient(const Tensor& slice, Stream& stream);
  void step(const Optimizer& optimizer, const StepScalars& scalars, const UpdateGroup& group,
            const ImportantRoom& room);
  // The weights follow.
  void show();

 private:
  Tensor used(const Tensor& tensor) const { return tensor.narrow(0, count_); }
  void bring(const Tensor& all, const Tensor& to, const ImportantRoom& room);

  const Options options_;
  Stream& compute_;
  Stream& host_;
  const std::vector<ShardField> fields_;  // of the slice
  const Tensor weights_;                  // likewise
  bool has_rest_ = false;
  int64_t most_ = 0;
  int64_t count_ = 0;  // now; before anything is chosen, as many as there may be
  std::vector<ShardField> important_{};
  Tensor places_, host_places_;  // within the slice
  Shard shard_{};
};

}  // namespace ds
