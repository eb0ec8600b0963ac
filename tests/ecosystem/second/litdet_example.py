"""Detection in medical images."""

# requires: litdet
# domain: medicine
# refused: every release pins lightning below 2.6
