// Adapters merged into the model that they are beside: W + s B A in the place of W, in fp32.
#pragma once

#include "train/convert/source.h"

namespace ds {

// Makes the source one of the same model without adapters, which computes the same. Nothing happens
// where it has none.
void merge_adapters(ConversionSource& source);

}  // namespace ds
