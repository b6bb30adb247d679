#include "precision/formats.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "precision/loss_scale_message.h"

namespace ampd::precision {
namespace {

using graph::Dtype;
using graph::DtypeText;
using P = v1::PrecisionPolicy;

// Applies the policy's fields to the preset's formats one by one, and records violations.
class FormatsBuilder {
 public:
  FormatsBuilder(const P& policy, const Preset& preset)
      : policy_(policy), harm_is_meant_(IsHarmMeant(policy, preset)), formats_(preset.formats) {}

  void TakeCompute(Dtype compute) {
    // If the policy changes the compute format, the other formats that were equal to it change too. But sums,
    // reductions and optimizer state stay in fp32 if the compute format changes from fp32.
    const Dtype before = std::exchange(formats_.compute, compute);
    const bool was_low = before != Dtype::kFloat32;
    for (Dtype* dtype : {&formats_.accumulation, &formats_.reduction, &formats_.optimizer_state}) {
      *dtype = was_low && *dtype == before ? compute : *dtype;
    }
    if (compute != before && formats_.parameter == before) {
      StoreIn(compute);
    }
    formats_.tf32_matmul |= policy_.compute() == P::tf32 || policy_.fp32_matmul() == P::tf32;
    formats_.tf32_matmul &= policy_.fp32_matmul() != P::fp32;
  }

  void TakeParameter() {
    if (policy_.cast_mode() == P::CAST) {
      StoreIn(Dtype::kFloat32);
    } else if (policy_.cast_mode() == P::MASTER) {
      StoreIn(formats_.compute);
    }
    const auto parameter = StorageDtype(policy_.parameter());
    if (!parameter.has_value()) {
      return;
    }
    if (*parameter != Dtype::kFloat32 && *parameter != formats_.compute) {
      Wrong("parameter", absl::StrCat("is ", P::Dtype_Name(policy_.parameter()),
                                      "; it must be fp32 or the compute format, ", DtypeText(formats_.compute)));
    } else if (policy_.cast_mode() == P::CAST && *parameter != Dtype::kFloat32) {
      Wrong("parameter", "excludes cast_mode CAST, which keeps parameters in fp32");
    } else if (policy_.cast_mode() == P::MASTER && *parameter == Dtype::kFloat32 &&
               formats_.compute != Dtype::kFloat32) {
      Wrong("parameter", "is fp32, which excludes cast_mode MASTER");
    } else {
      StoreIn(*parameter);
    }
  }

  void TakeMaster() {
    const bool low = formats_.parameter != Dtype::kFloat32;
    switch (policy_.master()) {
      case P::DTYPE_UNSPECIFIED:
        break;
      case P::none:
        formats_.master = Masters::kNone;
        break;
      case P::fp32:
        formats_.master = low ? Masters::kFloat32 : Masters::kNone;  // fp32 parameters need no master.
        break;
      case P::bf16_remainder16:
        formats_.master = Masters::kRemainder16;
        if (formats_.parameter != Dtype::kBFloat16) {
          Wrong("master", absl::StrCat("is bf16_remainder16; the parameters are ", DtypeText(formats_.parameter)));
        }
        break;
      default:
        Wrong("master",
              absl::StrCat("is ", P::Dtype_Name(policy_.master()), "; it must be fp32, bf16_remainder16 or none"));
    }
  }

  void TakeGradients() {
    if (const auto gradient = StorageDtype(policy_.gradient());
        gradient.value_or(formats_.parameter) != formats_.parameter) {
      Wrong("gradient", absl::StrCat("is ", P::Dtype_Name(policy_.gradient()),
                                     "; gradients have the parameters' format, ", DtypeText(formats_.parameter)));
    }
    if (const auto sum = StorageDtype(policy_.accumulation()); sum.has_value()) {
      formats_.accumulation = *sum;
      if (*sum != Dtype::kFloat32 && *sum != formats_.parameter) {
        Wrong("accumulation",
              absl::StrCat("is ", P::Dtype_Name(policy_.accumulation()),
                           "; it must be fp32 or the parameters' format, ", DtypeText(formats_.parameter)));
      }
    }
  }

  void TakeState() {
    formats_.optimizer_state = StorageDtype(policy_.optimizer_state()).value_or(formats_.optimizer_state);
    formats_.stochastic_rounding |= policy_.stochastic_rounding();
    if (formats_.stochastic_rounding && (formats_.parameter != Dtype::kBFloat16 || formats_.master != Masters::kNone)) {
      Wrong("stochastic_rounding", "needs bf16 parameters without a master");
    }
    if (formats_.optimizer_state == Dtype::kFloat16) {
      Wrong("optimizer_state", "is fp16, whose range the second moments leave; it must be fp32 or bf16");
    }
  }

  void RefuseHarm(OptimizerKind optimizer) {
    const bool bare =
        formats_.parameter != Dtype::kFloat32 && formats_.master == Masters::kNone && !formats_.stochastic_rounding;
    if (!bare || harm_is_meant_ || optimizer == OptimizerKind::kNone) {
      return;
    }
    if (formats_.parameter == Dtype::kFloat16) {
      Wrong("master", "is none; fp16 parameters need a fp32 master");
    } else if (optimizer == OptimizerKind::kAdam) {
      Wrong("master", "is none; AdamW's updates vanish in bf16 parameters without a master");
    }
  }

  absl::StatusOr<Formats> Take() && {
    if (!violations_.empty()) {
      return InvalidFields(violations_);
    }
    return formats_;
  }

 private:
  void Wrong(const char* field, std::string why) {
    violations_.push_back({absl::StrCat("precision.", field), std::move(why)});
  }

  void StoreIn(Dtype dtype) {
    formats_.parameter = dtype;
    if (dtype == Dtype::kFloat32) {
      formats_.whole_model = false;
      formats_.master = Masters::kNone;
      formats_.accumulation = Dtype::kFloat32;
    } else if (formats_.master == Masters::kNone) {
      formats_.master = Masters::kFloat32;
    }
  }

  const P& policy_;
  const bool harm_is_meant_;
  Formats formats_;
  std::vector<FieldViolation> violations_;
};

// Rejects valid formats that the engine does not support.
absl::Status CheckBuilt(const P& policy, const Preset& preset) {
  if (const auto wire = StorageDtype(policy.reduction());
      wire.value_or(preset.formats.reduction) != preset.formats.reduction) {
    return UnsupportedField("precision.reduction", absl::StrCat("is ", P::Dtype_Name(policy.reduction()),
                                                                ", which is not supported: an attempt runs on one "
                                                                "device"));
  }
  return absl::OkStatus();
}

// Rejects FP8 in the fields for tensor formats: only products of linear layers compute in FP8.
absl::Status CheckNotFp8(const P& policy) {
  const std::pair<const char*, P::Dtype> fields[] = {
      {"compute", policy.compute()},     {"parameter", policy.parameter()},
      {"gradient", policy.gradient()},   {"accumulation", policy.accumulation()},
      {"reduction", policy.reduction()}, {"optimizer_state", policy.optimizer_state()}};
  for (const auto& [field, dtype] : fields) {
    if (dtype == P::fp8_e4m3 || dtype == P::fp8_e5m2) {
      return UnsupportedField(absl::StrCat("precision.", field),
                              "only products of linear layers are in FP8; ask for that with precision.fp8, a preset or "
                              "a module rule");
    }
  }
  return absl::OkStatus();
}

LossScaleConfig DynamicOf(const Preset& preset) {
  return preset.loss_scale.kind == LossScaleConfig::Kind::kDynamic
             ? preset.loss_scale
             : LossScaleConfig{.kind = LossScaleConfig::Kind::kDynamic, .initial = 65536};
}

LossScaleConfig ScalingOf(const P& policy, const Preset& preset) {
  switch (policy.loss_scale().kind_case()) {
    case v1::LossScale::kDynamic: {
      LossScaleConfig config = DynamicOf(preset);
      Override(policy.loss_scale().dynamic(), &config);
      return config;
    }
    case v1::LossScale::kFixed:
      return {.kind = LossScaleConfig::Kind::kStatic, .initial = policy.loss_scale().fixed().scale()};
    case v1::LossScale::kOff:
      return {};
    case v1::LossScale::KIND_NOT_SET:
      break;
  }
  const Dtype compute = ComputeOf(policy, preset);
  if (compute == preset.formats.compute) {
    return preset.loss_scale;
  }
  return compute == Dtype::kFloat16 ? DynamicOf(preset) : LossScaleConfig();
}

}  // namespace

bool IsHarmMeant(const P& policy, const Preset& preset) { return policy.allow_unsafe() || !preset.caveat.empty(); }

std::optional<Dtype> StorageDtype(P::Dtype dtype) {
  switch (dtype) {
    case P::fp32:
    case P::tf32:
      return Dtype::kFloat32;
    case P::bf16:
      return Dtype::kBFloat16;
    case P::fp16:
      return Dtype::kFloat16;
    default:
      return std::nullopt;
  }
}

Dtype ComputeOf(const P& policy, const Preset& preset) {
  return StorageDtype(policy.compute()).value_or(preset.formats.compute);
}

absl::StatusOr<Formats> ResolveFormats(const P& policy, const Preset& preset, OptimizerKind optimizer) {
  AMPD_RETURN_IF_ERROR(CheckNotFp8(policy));
  FormatsBuilder builder(policy, preset);
  builder.TakeCompute(ComputeOf(policy, preset));
  builder.TakeParameter();
  builder.TakeMaster();
  builder.TakeGradients();
  builder.TakeState();
  builder.RefuseHarm(optimizer);
  AMPD_ASSIGN_OR_RETURN(const Formats formats, std::move(builder).Take());
  AMPD_RETURN_IF_ERROR(CheckBuilt(policy, preset));
  return formats;
}

LossScaleConfig ResolveLossScale(const P& policy, const Preset& preset) {
  LossScaleConfig config = ScalingOf(policy, preset);
  switch (policy.loss_scale().optimizer_skip()) {
    case v1::LossScale::EACH_ALONE:
      config.optimizer_skip = LossScaleConfig::OptimizerSkip::kEachAlone;
      break;
    case v1::LossScale::ALL_TOGETHER:
      config.optimizer_skip = LossScaleConfig::OptimizerSkip::kAllTogether;
      break;
    default:
      config.optimizer_skip = preset.loss_scale.optimizer_skip;
  }
  return config;
}

}  // namespace ampd::precision
