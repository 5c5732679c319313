// The source of a dry run: batches that have no bytes are not filled.
#pragma once

#include "train/batches/batch_source.h"

namespace ds {

class NoData final : public BatchSource {
 public:
  void fill(int64_t /*step*/, int /*micro_step*/, const MicroBatch& /*batch*/) override {}
  void fill_all(int64_t /*step*/, int /*micro_step*/, const BatchSpec& /*spec*/,
                const MicroBatch& /*batch*/) override {}
  int64_t first_sample(int /*micro_step*/) const override { return 0; }
};

}  // namespace ds
