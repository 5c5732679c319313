// ZenflowStateStore: optimizer state on the host, of which the important elements live on the
// device meanwhile (schedule.h says what they are). The host has all of every slice: where elements
// are important its numbers are stale until they are written back, which every visit asks for.
//
// Beside the optimizer's slots it keeps the sum of gradients that wait for the rest's update and,
// where that is made late, the weights that are seen meanwhile. Both are slots of checkpoints, and
// what is important is state of each matrix: with them a run goes on as if it had not stopped, by
// any number of ranks.
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "zero/state/optimizer_state_store.h"
#include "zero/state/weight_upload.h"
#include "zero/zenflow/column_choice.h"
#include "zero/zenflow/column_sums.h"
#include "zero/zenflow/deferred_update.h"
#include "zero/zenflow/important_part.h"
#include "zero/zenflow/schedule.h"

namespace ds {

class ZenflowStateStore final : public OptimizerStateStore {
 public:
  // Slots beside the optimizer's, after them.
  static std::vector<SlotSpec> slots(const ZenflowOptions& options);
  // What checkpoints call its state of a matrix.
  static constexpr const char* kColumnsState = "zenflow_columns";

  // Who has the other slices, and where this works; all of it outlives the state store.
  struct Place {
    Communicator& ranks;
    Stream& compute;
    const HostPlace& host;
  };
  // state store.slots: all. matrices: of the group's parameters, in the order of these.
  ZenflowStateStore(const StateOptions& state, const ZenflowOptions& options,
                    std::span<const StateSlice> slices, std::vector<ZenflowMatrix> matrices,
                    const Place& place);

  std::span<const StatePart> parts() const override { return parts_; }
  // Not with kUpdate and kSums: see update().
  void visit(PartAccess access, const Work& work) override;
  void store_gradient(int bucket, const Tensor& slice, Stream& stream) override;
  void load_gradient(int bucket, const Tensor& slice, Stream& stream) override;
  void store_final_gradient(int bucket, const Tensor& slice, Stream& stream) override;

  // Collective where columns are chosen, and where their gradients say when the interval ends.
  void update(const StateUpdate& update) override;

  // Returns the extra of each matrix, which is the same on all ranks.
  std::vector<AuxiliarySpec> auxiliary() const override {
    return columns_->auxiliary(kColumnsState);
  }
  void write_back(std::span<const Tensor> auxiliary) const override {
    columns_->write(auxiliary, compute_);
  }
  void take_back(std::span<const Tensor> auxiliary) override;

 private:
  struct Slice {
    Shard all;                // of the host: master, gradient, the optimizer's slots
    Tensor sum;               // of gradients that wait for the rest's update
    Tensor taken{}, shown{};  // where that is made late: what is under way, and weights until then
    std::unique_ptr<ImportantPart> important;
    bool has_rest() const { return important->has_rest(); }
  };
  bool is_late() const { return late_.has_value(); }
  void add_slice(const StateOptions& state, const StateSlice& slice, const HostPlace& host);
  void make_room(const HostPlace& host);
  void choose_places();

  void update_all(const StateUpdate& update);
  void update_part(size_t i, std::string_view what, const Tensor& grad, const StepScalars& by,
                   const StateUpdate& update);
  void select(const StateUpdate& update, std::span<const double> squares);
  void add_rest(const StateUpdate& update, std::span<const double> squares);
  void end_interval(const StateUpdate& update);
  void set_mean(const StateUpdate& update);
  void update_rest(const StateUpdate& update);
  void begin_late(const StateUpdate& update);
  void settle_late();
  void show_masters();
  void write_back_columns();
  void take_back_columns();

  const ZenflowOptions options_;
  Stream& compute_;
  Stream& host_;
  const std::vector<ZenflowMatrix> matrices_;
  const std::vector<StatePart> parts_;
  std::vector<Slice> slices_;  // one for each part
  ColumnSums sums_;
  WeightUpload out_;
  ImportantRoom room_{};
  StepScalars mean_;  // by which the rest is updated
  Event moved_{};     // the last gradient
  const std::unique_ptr<ColumnChoice> columns_;
  std::optional<DeferredUpdate> late_;  // the last: it works with all the others
};

}  // namespace ds
