#include "codegen/exec/own_constants.h"

#include <llvm/CodeGen/MachineFunctionPass.h>
#include <llvm/CodeGen/MachineRegisterInfo.h>

namespace tegula {

namespace {

class OwnConstants : public llvm::MachineFunctionPass {
 public:
  static char ID;
  OwnConstants() : llvm::MachineFunctionPass(ID) {}
  bool runOnMachineFunction(llvm::MachineFunction& function) override {
    bool changed = false;
    for (llvm::MachineBasicBlock& block : function)
      for (llvm::MachineInstr& i : llvm::make_early_inc_range(block)) changed |= replace(i, function);
    return changed;
  }

 private:
  static bool is_whole(const llvm::MachineOperand& operand) {
    return operand.getReg().isVirtual() && operand.getSubReg() == 0;
  }
  // Whether a loop carries what is written to the register next.
  static bool is_carried(llvm::Register written, const llvm::MachineRegisterInfo& registers) {
    return llvm::any_of(registers.use_instructions(written), [&](const llvm::MachineInstr& use) {
      return use.isCopy() && is_whole(use.getOperand(0)) && !registers.hasOneDef(use.getOperand(0).getReg());
    });
  }
  static bool replace(llvm::MachineInstr& copy, llvm::MachineFunction& function) {
    if (!copy.isCopy() || !is_whole(copy.getOperand(0)) || !is_whole(copy.getOperand(1))) return false;
    llvm::MachineRegisterInfo& registers = function.getRegInfo();
    const llvm::Register to = copy.getOperand(0).getReg(), from = copy.getOperand(1).getReg();
    llvm::MachineInstr* constant = registers.getUniqueVRegDef(from);
    if (!constant || constant->getNumOperands() != 2 || !constant->isAsCheapAsAMove()) return false;
    if (is_carried(to, registers)) return false;
    const llvm::MachineOperand& value = constant->getOperand(1);
    if ((!value.isImm() && !value.isFPImm()) || registers.getRegClass(to) != registers.getRegClass(from)) return false;
    llvm::MachineInstr* own = function.CloneMachineInstr(constant);
    own->getOperand(0).setReg(to);
    own->getOperand(0).setIsDead(false);
    own->setDebugLoc(copy.getDebugLoc());
    copy.getParent()->insert(copy.getIterator(), own);
    copy.eraseFromParent();
    return true;
  }
};
char OwnConstants::ID = 0;

}  // namespace

llvm::FunctionPass* own_constants() { return new OwnConstants; }

}  // namespace tegula
