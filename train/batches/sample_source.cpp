#include "train/batches/sample_source.h"

#include "train/batches/labelled_source.h"
#include "train/batches/pair_source.h"
#include "train/batches/supervised_source.h"

namespace ds {

std::unique_ptr<BatchSource> make_sample_source(const SampleSet& samples, const Sampler& sampler,
                                                const BatchShape& shape, const SamplePlace& place,
                                                const LoaderOptions& options) {
  if (options.rules.scored && options.rules.scored->is_pair) {
    return std::make_unique<PairSource>(samples, sampler, shape, place, options);
  }
  if (options.rules.scored) {
    return std::make_unique<LabelledSource>(samples, sampler, shape, place, options);
  }
  if (options.rules.is_supervised) {
    return std::make_unique<SupervisedSource>(samples, sampler, shape, place, options);
  }
  return std::make_unique<LoaderSource>(samples, sampler, shape, place, options);
}

}  // namespace ds
