#include "runtime/gpu/launch/graph_hold.h"

#include <memory>
#include <utility>

namespace sccl::runtime {
namespace {

constexpr unsigned kMoveReference = 1;

}  // namespace

void GraphHold::keep(const gpu::CaptureState& capture) {
  const gpu::Driver& driver = *resources_->membership().device.driver;
  if (capture.id == kept_for_ || capture.graph == nullptr || driver.user_object_create == nullptr ||
      driver.graph_retain == nullptr)
    return;
  const auto let_go = [](void* held) {  // must not call the driver
    auto* const resources = static_cast<std::shared_ptr<DeviceResources>*>(held);
    DeviceResources::bury(std::move(*resources));
    delete resources;
  };
  auto* const held = new std::shared_ptr<DeviceResources>(resources_.shared());
  void* object = nullptr;
  if (const gpu::Status status = driver.user_object_create(&object, held, let_go, 1, 1); status != 0) {
    delete held;
    driver.fail(status, "keeping memory for a graph");
  }
  driver.check(driver.graph_retain(capture.graph, object, 1, kMoveReference), "keeping memory for a graph");
  kept_for_ = capture.id;
}

}  // namespace sccl::runtime
