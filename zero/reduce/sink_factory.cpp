#include "zero/reduce/sink_factory.h"

#include <utility>

#include "zero/reduce/asked_sink.h"
#include "zero/reduce/local_sink.h"
#include "zero/reduce/offloaded_sinks.h"
#include "zero/reduce/reduced_sinks.h"
#include "zero/reduce/row_sink.h"

namespace ds {
namespace {

// What a sink is chosen by, and the pieces that it is made of.
class SinkFactory {
 public:
  SinkFactory(const GradOptions& options, const BucketLayout& layout, const GradPlace& place)
      : options_(options),
        layout_(layout),
        place_(place),
        is_alone_(place.peers.shard.size() == 1),
        is_offloaded_(place.keeper != nullptr),
        by_step_(options.reduce != Reduce::kEachMicroStep),
        keeps_buckets_(options.sharding == Sharding::kWhole || (accumulates() && !is_offloaded_)) {}

  std::unique_ptr<GradientSink> make(std::vector<int> uses);

 private:
  // Micro-batches are added up where they are written.
  bool accumulates() const { return by_step_ || is_alone_; }
  void refuse_what_cannot_be() const;
  void refuse_what_cannot_wait() const;
  SinkParts parts(std::vector<int> uses) const;
  std::unique_ptr<GradientPeriod> period(std::vector<int> uses) const;
  std::unique_ptr<BucketMemory> memory() const;
  std::unique_ptr<GradientWire> wire() const;
  StoredSums stored_sums() const;
  bool sums_where_written(bool adds_rows) const;
  Tensor whole_sum(int bucket, const BucketMemory& memory, bool adds_rows) const;
  SumPlaces sums(const BucketMemory& memory) const;
  std::unique_ptr<GradientSink> alone(SinkParts parts) const;
  std::unique_ptr<GradientSink> by_rows(SinkParts parts, std::unique_ptr<GradientWire> wire,
                                        size_t params) const;
  std::unique_ptr<GradientSink> reduced(SinkParts parts, std::unique_ptr<GradientWire> wire) const;
  Tensor zeros(int64_t numel) const {
    return Tensor::zeros({numel}, options_.slice_dtype, place_.streams.compute,
                         MemoryTag::kGradients);
  }
  Stream& compute() const { return place_.streams.compute; }

  const GradOptions& options_;
  const BucketLayout& layout_;
  const GradPlace& place_;
  const bool is_alone_, is_offloaded_;
  const bool by_step_;        // a period is the step
  const bool keeps_buckets_;  // the memory that gradients are written into stays
};

void SinkFactory::refuse_what_cannot_be() const {
  const GradPeers& peers = place_.peers;
  DS_CHECK(peers.quantized == nullptr || options_.sharding == Sharding::kSharded,
           "gradients: those that are kept whole are not quantized");
  const bool sums_elsewhere = !peers.summed.empty() && !by_step_;
  if (is_offloaded_ && (options_.reduce == Reduce::kIfAsked || sums_elsewhere)) {
    throw Unsupported(
        "zero: gradients of offloaded optimizer state are reduced after each micro-step within one "
        "group of ranks, or at the step's end; 1-bit optimizers and MiCS keep it on the device");
  }
  DS_CHECK(!options_.rows.any() || (!by_step_ && peers.summed.empty() && !is_offloaded_ &&
                                    options_.state == Sharding::kWhole),
           "gradients: rows of tables are exchanged after each micro-step, of whole state on the "
           "device, within one group of ranks");
  if (by_step_ && !is_alone_) refuse_what_cannot_wait();
}

void SinkFactory::refuse_what_cannot_wait() const {
  if (options_.sharding == Sharding::kSharded) {
    throw Unsupported(
        "zero: sharded gradients (stages 2 and 3) are reduced after each micro-step, because no "
        "rank keeps them whole until the end of the step; use stage 0 or 1");
  }
  if (options_.reduce == Reduce::kIfAsked &&
      (options_.state == Sharding::kSharded || !place_.peers.summed.empty())) {
    throw Unsupported(
        "zero: an optimizer that exchanges gradients itself needs its whole state on every rank, "
        "and one group to exchange them in; use stage 0 without mics_shard_size");
  }
}

std::unique_ptr<GradientPeriod> SinkFactory::period(std::vector<int> uses) const {
  if (by_step_) {
    return std::make_unique<StepPeriod>(layout_, std::move(uses), options_.micro_steps);
  }
  return std::make_unique<MicroStepPeriod>(layout_, std::move(uses), options_.micro_steps);
}

// Backward passes write their own dtype or fp32.
std::unique_ptr<BucketMemory> SinkFactory::memory() const {
  if (keeps_buckets_) {
    const bool widens = accumulates() && options_.slice_dtype == DType::kF32;
    return make_kept_buckets(layout_, widens ? DType::kF32 : options_.dtype, compute(),
                             place_.slots);
  }
  return make_lent_buckets(layout_, accumulates() ? options_.slice_dtype : options_.dtype,
                           compute(), place_.slots);
}

SinkParts SinkFactory::parts(std::vector<int> uses) const {
  return {.layout = layout_,
          .period = period(std::move(uses)),
          .memory = memory(),
          .others = place_.peers.summed,
          .streams = place_.streams,
          .slots = place_.slots};
}

std::unique_ptr<GradientWire> SinkFactory::wire() const {
  const GradientWire::Peers peers{.comm = place_.peers.shard, .quantized = place_.peers.quantized};
  return std::make_unique<GradientWire>(peers, options_.wire_dtype, layout_, place_.streams,
                                        place_.slots);
}

StoredSums SinkFactory::stored_sums() const {
  return {*place_.keeper, narrow<int>(layout_.buckets().size()), place_.streams, place_.slots};
}

// Rows are added up where their sums are to stay, and what is written is of one micro-step.
bool SinkFactory::sums_where_written(bool adds_rows) const {
  return keeps_buckets_ && (by_step_ || (options_.dtype == options_.slice_dtype && !adds_rows));
}

Tensor SinkFactory::whole_sum(int bucket, const BucketMemory& memory, bool adds_rows) const {
  if (sums_where_written(adds_rows)) return memory.whole(bucket);
  return zeros(nth(layout_.buckets(), bucket).numel);
}

// Sums of several micro-steps lie apart from what the next one writes.
SumPlaces SinkFactory::sums(const BucketMemory& memory) const {
  const bool shares = sums_where_written(false) && (by_step_ || options_.micro_steps == 1);
  const int rank = place_.peers.shard.rank();
  SumPlaces sums{.dtype = options_.slice_dtype, .slices = {}, .wholes = {}};
  for (int b = 0; b < narrow<int>(layout_.buckets().size()); ++b) {
    const int64_t numel = layout_.slice_numel(b);
    const auto own = [&](const Tensor& of) { return of.narrow(rank * numel, numel); };
    if (options_.state == Sharding::kWhole) sums.wholes.push_back(whole_sum(b, memory, false));
    const bool is_apart = options_.state == Sharding::kWhole && !sums_where_written(false);
    sums.slices.push_back(shares     ? own(memory.whole(b))
                          : is_apart ? own(sums.wholes.back())
                                     : zeros(numel));
  }
  return sums;
}

std::unique_ptr<GradientSink> SinkFactory::alone(SinkParts parts) const {
  if (is_offloaded_ && keeps_buckets_) {
    return std::make_unique<OffloadedLocalSink>(std::move(parts), stored_sums());
  }
  if (is_offloaded_) return std::make_unique<OffloadedLentSink>(std::move(parts), stored_sums());
  if (options_.reduce == Reduce::kIfAsked) {
    return std::make_unique<AskedSink<LocalSink>>(std::move(parts));
  }
  return std::make_unique<LocalSink>(std::move(parts));
}

std::unique_ptr<GradientSink> SinkFactory::by_rows(SinkParts parts,
                                                   std::unique_ptr<GradientWire> wire,
                                                   size_t params) const {
  std::vector<Tensor> wholes;
  for (int b = 0; b < narrow<int>(layout_.buckets().size()); ++b) {
    wholes.push_back(whole_sum(b, *parts.memory, options_.micro_steps > 1));
  }
  RowExchange exchange(place_.peers.shard, options_.rows, options_.wire_dtype, place_.streams,
                       place_.slots);
  RowWire rows{.wire = std::move(wire), .exchange = exchange, .columns = options_.rows.columns};
  return std::make_unique<RowSink>(std::move(parts), std::move(rows), std::move(wholes), params);
}

std::unique_ptr<GradientSink> SinkFactory::reduced(SinkParts parts,
                                                   std::unique_ptr<GradientWire> wire) const {
  SumPlaces places = sums(*parts.memory);
  if (options_.state == Sharding::kSharded) {
    return std::make_unique<SlicedSink>(std::move(parts), std::move(wire), std::move(places));
  }
  if (options_.reduce == Reduce::kIfAsked) {
    return std::make_unique<AskedSink<WholeSink>>(std::move(parts), std::move(wire),
                                                  std::move(places));
  }
  return std::make_unique<WholeSink>(std::move(parts), std::move(wire), std::move(places));
}

std::unique_ptr<GradientSink> SinkFactory::make(std::vector<int> uses) {
  refuse_what_cannot_be();
  const size_t params = uses.size();
  if (is_alone_) return alone(parts(std::move(uses)));
  std::unique_ptr<GradientWire> over = wire();
  SinkParts made = parts(std::move(uses));
  if (is_offloaded_) {
    return std::make_unique<OffloadedSliceSink>(std::move(made), stored_sums(), std::move(over),
                                                options_.slice_dtype);
  }
  if (options_.rows.any()) return by_rows(std::move(made), std::move(over), params);
  return reduced(std::move(made), std::move(over));
}

}  // namespace

std::unique_ptr<GradientSink> make_gradient_sink(const GradOptions& options,
                                                 const BucketLayout& layout, std::vector<int> uses,
                                                 const GradPlace& place) {
  return SinkFactory(options, layout, place).make(std::move(uses));
}

}  // namespace ds
