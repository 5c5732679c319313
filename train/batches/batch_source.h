// A batch source is where the engine's micro-batches come from. The step's thread asks it; a source
// that reads ahead of the step asks another source from a thread of its own.
#pragma once

#include <cstdint>
#include <optional>

#include "core/device/stream.h"
#include "model/pass/batch.h"

namespace ds {

class BatchSource {
 public:
  virtual ~BatchSource() = default;
  // Fills this rank's part of a micro-step, in memory of the host: the given fields of `batch`
  // (BatchField::Kind), those of which it has and no others; InternalError for one that the source
  // does not know. step counts from 0. All ids are of the vocabulary: who reads them from files or
  // makes them of texts has checked that. While one call runs there is no other, but for those of
  // the methods below.
  virtual void fill(int64_t step, int micro_step, const MicroBatch& batch) = 0;
  // Fills a micro-batch with these fields and makes what follows from them.
  virtual void fill_all(int64_t step, int micro_step, const BatchSpec& spec,
                        const MicroBatch& batch) {
    fill(step, micro_step, batch);
    fill_derived(spec, batch);
  }
  // The index, within the global batch, of the first sample of this rank's part. Asked for apart,
  // because stages of a pipeline that load nothing drop the same elements of these samples.
  virtual int64_t first_sample(int micro_step) const = 0;
  // The step's thread is about to use a micro-batch that has been filled: each once, in their
  // order.
  virtual void on_use(int64_t /*step*/, int /*micro_step*/) {}

  // A source that fills ahead returns the micro-batch, once it is there and with what is derived,
  // in memory that stays as it is until give_back() and the event that is given there. Nothing:
  // fill() is to be called.
  virtual std::optional<MicroBatch> take(int64_t /*step*/, int /*micro_step*/) {
    return std::nullopt;
  }
  virtual void give_back(const Event& /*copied*/) {}
};

}  // namespace ds
