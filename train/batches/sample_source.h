// Which source makes batches of samples.
#pragma once

#include <memory>

#include "train/batches/loader_source.h"

namespace ds {

// The source that the samples are for: what they hold is said by the options.
std::unique_ptr<BatchSource> make_sample_source(const SampleSet& samples, const Sampler& sampler,
                                                const BatchShape& shape, const SamplePlace& place,
                                                const LoaderOptions& options);

}  // namespace ds
