"""Integration of cells' modalities."""

# requires: multimil
# domain: biology
# refused: admits no scvi-tools above 0.20, which imports a name that Lightning dropped in 2.0 (LightningLoggerBase)
