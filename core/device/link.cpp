#include "core/device/link.h"

#include "core/status/error.h"

namespace ds {

std::string_view name_of(Link link) {
  switch (link) {
    case Link::kToDevice:
      return "h2d";
    case Link::kToHost:
      return "d2h";
    case Link::kNvmeRead:
      return "nvme_read";
    case Link::kNvmeWrite:
      return "nvme_write";
  }
  throw InternalError("name_of: unknown link");
}

}  // namespace ds
