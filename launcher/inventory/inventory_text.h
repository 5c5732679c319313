// An inventory for people and for programs (pure).
#pragma once

#include <string>

#include "launcher/inventory/inventory.h"

namespace ds {

std::string inventory_text(const Inventory& inventory);
std::string inventory_json(const Inventory& inventory);

}  // namespace ds
